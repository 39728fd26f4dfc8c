/* Interposes system calls of a program under test: errors and delays of the disk below one directory, a lack of descriptors,
 * and a clock that jumps. The faults are in a file that is mapped at start, so that nothing is opened later on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* The same layout as `FaultySystem::set` in faulty_system.rs. */
struct faults {
    _Atomic int32_t write_error, sync_error, open_error, accept_error;
    _Atomic int32_t sync_millis, hang;
    _Atomic int64_t clock_seconds;
};

#define DESCRIPTORS 65536
static struct faults none, *faults = &none;
static const char *directory;
static _Atomic char is_below[DESCRIPTORS];

__attribute__((constructor)) static void prepare(void) {
    const char *path = getenv("FAULTY_SYSTEM");
    directory = getenv("FAULTY_DIRECTORY");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd >= 0) {
        void *mapped = mmap(NULL, sizeof(struct faults), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (mapped != MAP_FAILED)
            faults = mapped;
        close(fd);
    }
}

static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }
#define NEXT(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))next(#name)

static int opened(int fd, const char *path) {
    if (fd >= 0 && fd < DESCRIPTORS)
        is_below[fd] = directory && strncmp(path, directory, strlen(directory)) == 0;
    return fd;
}

static int fails(int error) {
    if (error)
        errno = error;
    return error != 0;
}

static int write_fails(int fd) {
    return fd >= 0 && fd < DESCRIPTORS && is_below[fd] && fails(faults->write_error);
}

static int sync_fails(int fd) {
    if (fd < 0 || fd >= DESCRIPTORS || !is_below[fd])
        return 0;
    struct timespec step = {0, 1000000};
    for (int waited = 0; faults->hang || waited < faults->sync_millis; waited++)
        nanosleep(&step, NULL);
    return fails(faults->sync_error);
}

#define OPEN(name, ...) \
    if (fails(faults->open_error)) return -1; \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); } \
    NEXT(name); \
    return opened(real(__VA_ARGS__, flags, mode), path)

int open(const char *path, int flags, ...) { OPEN(open, path); }
int open64(const char *path, int flags, ...) { OPEN(open64, path); }
int openat(int at, const char *path, int flags, ...) { OPEN(openat, at, path); }
int openat64(int at, const char *path, int flags, ...) { OPEN(openat64, at, path); }

ssize_t write(int fd, const void *data, size_t size) { if (write_fails(fd)) return -1; NEXT(write); return real(fd, data, size); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { if (write_fails(fd)) return -1; NEXT(pwrite); return real(fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { if (write_fails(fd)) return -1; NEXT(pwrite64); return real(fd, data, size, at); }
int ftruncate(int fd, off_t size) { if (write_fails(fd)) return -1; NEXT(ftruncate); return real(fd, size); }
int ftruncate64(int fd, off64_t size) { if (write_fails(fd)) return -1; NEXT(ftruncate64); return real(fd, size); }
int fsync(int fd) { if (sync_fails(fd)) return -1; NEXT(fsync); return real(fd); }
int fdatasync(int fd) { if (sync_fails(fd)) return -1; NEXT(fdatasync); return real(fd); }

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags) {
    if (fails(faults->accept_error))
        return -1;
    NEXT(accept4);
    return real(fd, address, size, flags);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    NEXT(clock_gettime);
    int result = real(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += faults->clock_seconds;
    return result;
}

time_t time(time_t *into) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into)
        *into = now.tv_sec;
    return now.tv_sec;
}
