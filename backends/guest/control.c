/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/guest/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define CONTROL_MAGIC 0x6f726331U

struct header {
    uint32_t magic;
    uint32_t type;
    uint32_t in_memfd;
    uint32_t length;
};

union fd_room {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int) * (CONTROL_FDS_MAX + 1)) + CMSG_SPACE(sizeof(struct ucred))];
};

static int memfd_of(const void *head, size_t head_len, const void *tail, size_t tail_len)
{
    int fd = memfd_create("control", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return -errno;
    }
    const struct {
        const char *data;
        size_t len;
    } parts[] = {{head, head_len}, {tail, tail_len}};
    for (size_t i = 0; i < 2; i++) {
        for (size_t at = 0; at < parts[i].len;) {
            ssize_t n = write(fd, parts[i].data + at, parts[i].len - at);
            if (n < 0) {
                int sys = errno;
                (void)close(fd);
                return -sys;
            }
            at += (size_t)n;
        }
    }
    (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    return fd;
}

int control_send(int fd, enum control_type type, const void *head, size_t head_len, const void *tail, size_t tail_len,
                 const int *fds, size_t fd_count)
{
    size_t length = head_len + tail_len;
    if (length > CONTROL_PAYLOAD_MAX || fd_count >= CONTROL_FDS_MAX) {
        return -E2BIG;
    }
    struct header h = {.magic = CONTROL_MAGIC, .type = (uint32_t)type, .length = (uint32_t)length};
    int all[CONTROL_FDS_MAX];
    int memfd = -1;
    if (fd_count > 0) {
        memcpy(all, fds, fd_count * sizeof *fds);
    }
    if (length > CONTROL_INLINE_MAX) {
        memfd = memfd_of(head, head_len, tail, tail_len);
        if (memfd < 0) {
            return memfd;
        }
        h.in_memfd = 1;
        all[fd_count++] = memfd;
        head_len = tail_len = 0;
    }
    struct iovec parts[3] = {
        {&h, sizeof h},
        {(void *)(uintptr_t)head, head_len},
        {(void *)(uintptr_t)tail, tail_len},
    };
    union fd_room room = {.bytes = {0}};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = 3};
    if (fd_count > 0) {
        m.msg_control = room.bytes;
        m.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(c), all, fd_count * sizeof(int));
    }
    ssize_t n;
    do {
        n = sendmsg(fd, &m, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    int code = n < 0 ? -errno : 0;
    if (memfd >= 0) {
        (void)close(memfd);
    }
    return code;
}

static void take_ancillary(struct msghdr *m, struct control_message *ret)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c != NULL; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET) {
            continue;
        }
        if (c->cmsg_type == SCM_CREDENTIALS) {
            struct ucred cred;
            memcpy(&cred, CMSG_DATA(c), sizeof cred);
            ret->sender = cred.pid;
        } else if (c->cmsg_type == SCM_RIGHTS) {
            size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            for (size_t i = 0; i < n; i++) {
                int one;
                memcpy(&one, CMSG_DATA(c) + i * sizeof(int), sizeof one);
                if (ret->fd_count < CONTROL_FDS_MAX) {
                    ret->fds[ret->fd_count++] = one;
                } else {
                    (void)close(one);
                }
            }
        }
    }
}

/* Replaces the inline payload by what the last descriptor holds. */
static int take_memfd(struct control_message *m, size_t length)
{
    if (m->fd_count == 0 || length > CONTROL_PAYLOAD_MAX) {
        return -EPROTO;
    }
    int fd = m->fds[--m->fd_count];
    char *data = malloc(length + 1);
    size_t at = 0;
    while (data != NULL && at < length) {
        ssize_t n = pread(fd, data + at, length - at, (off_t)at);
        if (n <= 0) {
            break;
        }
        at += (size_t)n;
    }
    (void)close(fd);
    if (data == NULL || at < length) {
        free(data);
        return data == NULL ? -ENOMEM : -EPROTO;
    }
    data[length] = '\0';
    free(m->data);
    m->data = data;
    m->len = length;
    return 0;
}

int control_receive(int fd, struct control_message *ret)
{
    struct header h = {.magic = 0};
    struct control_message got = {.data = malloc(CONTROL_INLINE_MAX + 1)};
    if (got.data == NULL) {
        return -ENOMEM;
    }
    struct iovec parts[2] = {{&h, sizeof h}, {got.data, CONTROL_INLINE_MAX}};
    union fd_room room;
    struct msghdr m = {
        .msg_iov = parts, .msg_iovlen = 2, .msg_control = room.bytes, .msg_controllen = sizeof room.bytes};
    ssize_t n;
    do {
        n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n <= 0) {
        int sys = n < 0 ? errno : 0;
        free(got.data);
        return sys == ECONNRESET ? 0 : -sys;
    }
    take_ancillary(&m, &got);
    int code = 0;
    got.len = (size_t)n >= sizeof h ? (size_t)n - sizeof h : 0;
    got.data[got.len] = '\0';
    if ((size_t)n < sizeof h || (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || h.magic != CONTROL_MAGIC ||
        h.type == 0 || h.type >= CONTROL_TYPE_COUNT) {
        code = -EPROTO;
    } else if (h.in_memfd != 0) {
        code = take_memfd(&got, h.length);
    } else if (h.length != got.len) {
        code = -EPROTO;
    }
    if (code < 0) {
        control_message_done(&got);
        return code;
    }
    got.type = (enum control_type)h.type;
    *ret = got;
    return 1;
}

void control_message_done(struct control_message *m)
{
    free(m->data);
    for (size_t i = 0; i < m->fd_count; i++) {
        (void)close(m->fds[i]);
    }
    *m = (struct control_message){.data = NULL};
}
