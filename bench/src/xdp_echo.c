// Returns every datagram over IPv4 to port 53 that arrives at an interface as a response, by AF_XDP and without checks: what an
// answer costs the kernel at least. The headers are swapped in place, and the buffer is sent as it is. For bench/xdp.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FRAMES = 2048, FRAME = 2048, N = 32, TRIES = 4 };

struct ring {
    uint32_t *producer, *consumer;
    void *entries;
};

static int check(int result, const char *what) {
    if (result < 0) {
        perror(what);
        _exit(1);
    }
    return result;
}

static int bpf(int command, union bpf_attr *attributes, const char *what) {
    return check(syscall(SYS_bpf, command, attributes, sizeof *attributes), what);
}

static struct ring ring(int s, struct xdp_ring_offset *offsets, size_t size, off_t at) {
    char *p = mmap(0, offsets->desc + FRAMES * size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, s, at);
    check(p == MAP_FAILED ? -1 : 0, "mmap");
    return (struct ring){ (void *)(p + offsets->producer), (void *)(p + offsets->consumer), p + offsets->desc };
}

static uint64_t instruction(uint8_t code, unsigned to, unsigned from, int16_t offset, int32_t value) {
    return code | (uint64_t)to << 8 | (uint64_t)from << 12 | (uint64_t)(uint16_t)offset << 16 | (uint64_t)(uint32_t)value << 32;
}

// UDP over IPv4 to port 53 goes to the socket of queue 0, everything else to the kernel.
static int load_program(int map) {
    uint64_t program[] = {
        instruction(0x61, 2, 1, 0, 0),            // r2 = data
        instruction(0x61, 3, 1, 4, 0),            // r3 = end of data
        instruction(0xbf, 4, 2, 0, 0),            // r4 = r2
        instruction(0x07, 4, 0, 0, 42),           // r4 += headers
        instruction(0x2d, 4, 3, 10, 0),           // too short
        instruction(0x71, 4, 2, 23, 0),           // r4 = protocol
        instruction(0x55, 4, 0, 8, 17),           // not UDP
        instruction(0x69, 4, 2, 36, 0),           // r4 = port
        instruction(0x55, 4, 0, 6, 0x3500),       // not 53
        instruction(0x18, 1, 1, 0, map),          // r1 = map
        0,
        instruction(0xb7, 2, 0, 0, 0),            // r2 = queue
        instruction(0xb7, 3, 0, 0, XDP_PASS),     // r3 = otherwise
        instruction(0x85, 0, 0, 0, 51),           // bpf_redirect_map
        instruction(0x95, 0, 0, 0, 0),            // return
        instruction(0xb7, 0, 0, 0, XDP_PASS),     // r0 = pass
        instruction(0x95, 0, 0, 0, 0),            // return
    };
    union bpf_attr attributes = {
        .prog_type = BPF_PROG_TYPE_XDP,
        .insn_cnt = sizeof program / sizeof *program,
        .insns = (uintptr_t)program,
        .license = (uintptr_t)"Dual MIT/GPL",
    };
    return bpf(BPF_PROG_LOAD, &attributes, "load");
}

static void swap(uint8_t *a, uint8_t *b, size_t len) {
    uint8_t kept[6];
    memcpy(kept, a, len);
    memcpy(a, b, len);
    memcpy(b, kept, len);
}

int main(int count, char **arguments) {
    int interface = count > 1 ? if_nametoindex(arguments[1]) : 0, size = FRAMES, queue = 0, send_buffer = 2 << 20;
    union bpf_attr attributes = { .map_type = BPF_MAP_TYPE_XSKMAP, .key_size = 4, .value_size = 4, .max_entries = 1 };
    int map = bpf(BPF_MAP_CREATE, &attributes, "map"), program = load_program(map);
    int s = check(socket(AF_XDP, SOCK_RAW, 0), "socket");
    uint8_t *frames = mmap(0, FRAMES * FRAME, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    struct xdp_umem_reg region = { .addr = (uintptr_t)frames, .len = FRAMES * FRAME, .chunk_size = FRAME };
    check(setsockopt(s, SOL_XDP, XDP_UMEM_REG, &region, sizeof region), "memory");
    int rings[] = { XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING, XDP_RX_RING, XDP_TX_RING };
    for (int i = 0; i < 4; i++) check(setsockopt(s, SOL_XDP, rings[i], &size, sizeof size), "ring");
    setsockopt(s, SOL_SOCKET, SO_SNDBUFFORCE, &send_buffer, sizeof send_buffer);
    struct xdp_mmap_offsets offsets;
    socklen_t len = sizeof offsets;
    check(getsockopt(s, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &len), "offsets");
    struct ring fill = ring(s, &offsets.fr, 8, XDP_UMEM_PGOFF_FILL_RING);
    struct ring sent = ring(s, &offsets.cr, 8, XDP_UMEM_PGOFF_COMPLETION_RING);
    struct ring in = ring(s, &offsets.rx, 16, XDP_PGOFF_RX_RING), out = ring(s, &offsets.tx, 16, XDP_PGOFF_TX_RING);
    struct sockaddr_xdp at = { .sxdp_family = AF_XDP, .sxdp_flags = XDP_USE_NEED_WAKEUP | XDP_COPY, .sxdp_ifindex = interface };
    check(bind(s, (void *)&at, sizeof at), "bind");
    attributes = (union bpf_attr){ .map_fd = map, .key = (uintptr_t)&queue, .value = (uintptr_t)&s };
    bpf(BPF_MAP_UPDATE_ELEM, &attributes, "update");
    attributes = (union bpf_attr){ .link_create = {
        .prog_fd = program, .target_ifindex = interface, .attach_type = BPF_XDP, .flags = XDP_FLAGS_DRV_MODE } };
    bpf(BPF_LINK_CREATE, &attributes, "attach");
    uint32_t filled = 0, received = 0, added = 0, completed = 0;
    for (; filled < FRAMES; filled++) ((uint64_t *)fill.entries)[filled] = (uint64_t)filled * FRAME;
    __atomic_store_n(fill.producer, filled, __ATOMIC_RELEASE);
    for (;;) {
        uint32_t end = __atomic_load_n(in.producer, __ATOMIC_ACQUIRE);
        if (end == received) {
            struct pollfd wait = { .fd = s, .events = POLLIN };
            poll(&wait, 1, 1000);
            continue;
        }
        if (end - received > N) end = received + N;
        for (; received != end; received++) {
            struct xdp_desc packet = ((struct xdp_desc *)in.entries)[received % FRAMES];
            uint8_t *frame = frames + packet.addr;
            swap(frame, frame + 6, 6);
            swap(frame + 26, frame + 30, 4);
            swap(frame + 34, frame + 36, 2);
            // No checksum (RFC 768).
            frame[40] = frame[41] = 0;
            frame[44] |= 0x80;
            ((struct xdp_desc *)out.entries)[added++ % FRAMES] = packet;
        }
        __atomic_store_n(in.consumer, received, __ATOMIC_RELEASE);
        __atomic_store_n(out.producer, added, __ATOMIC_RELEASE);
        for (int i = 0; i < TRIES && sendto(s, 0, 0, MSG_DONTWAIT, 0, 0) < 0 && errno == EAGAIN; i++) continue;
        end = __atomic_load_n(sent.producer, __ATOMIC_ACQUIRE);
        for (; completed != end; completed++) {
            uint64_t packet = ((uint64_t *)sent.entries)[completed % FRAMES];
            ((uint64_t *)fill.entries)[filled++ % FRAMES] = packet & ~(uint64_t)(FRAME - 1);
        }
        __atomic_store_n(sent.consumer, completed, __ATOMIC_RELEASE);
        __atomic_store_n(fill.producer, filled, __ATOMIC_RELEASE);
    }
}
