// Returns every datagram to 192.0.2.1, port 53, as a response; one system call for 32 of them. For bench/xdp.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <sys/socket.h>

enum { N = 32, M = 512 };

int main(void) {
    static char data[N][M];
    static struct sockaddr_in from[N];
    static struct iovec parts[N];
    static struct mmsghdr all[N];
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(53) };
    inet_pton(AF_INET, "192.0.2.1", &at.sin_addr);
    int s = socket(AF_INET, SOCK_DGRAM, 0), size = 4 << 20;
    setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    if (bind(s, (void *)&at, sizeof at)) return 1;
    for (;;) {
        for (int i = 0; i < N; i++) {
            parts[i] = (struct iovec){ data[i], M };
            all[i].msg_hdr = (struct msghdr){ .msg_name = &from[i], .msg_namelen = sizeof from[i], .msg_iov = &parts[i], .msg_iovlen = 1 };
        }
        int n = recvmmsg(s, all, N, MSG_WAITFORONE, 0);
        for (int i = 0; i < n; i++) {
            data[i][2] |= 0x80;
            parts[i].iov_len = all[i].msg_len;
        }
        if (n > 0) sendmmsg(s, all, n, 0);
    }
}
