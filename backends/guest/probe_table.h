/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The acts that `orch sandbox test` tries inside a sandbox and, as a control, outside of it. Each is one function of
 * orch-probe that returns 0 when the act succeeded, else its errno. A denial holds when the errno inside is one of
 * those given here and outside it was not: a tool that is missing, or a kernel that refuses everybody, proves nothing.
 *
 * X(name, GROUP, KIND, expected, or this, needs, what)
 *   KIND      DENIED: must fail inside; ALLOWED: a positive control, must succeed inside; OPEN: a documented residual,
 * what is seen is shown as "not promised" needs     what must be there for the act outside to mean something: 0
 * nothing, R root, L Landlock scopes (ABI 6) Numbers in the texts are those of the catalogue of escapes that
 * tests/escape covers.
 */
#ifndef ORCH_BACKENDS_GUEST_PROBE_TABLE_H
#define ORCH_BACKENDS_GUEST_PROBE_TABLE_H

#include <errno.h>

#define PROBE_ANY_ROOT 1 /* R */
#define PROBE_SCOPES 2   /* L */

#define PROBE_TABLE(X)                                                                                                 \
    X(read_granted, FILES, ALLOWED, 0, 0, 0, "read a granted file")                                                    \
    X(write_output, FILES, ALLOWED, 0, 0, 0, "write where it was granted")                                             \
    X(write_tmp, FILES, ALLOWED, 0, 0, 0, "write the private /tmp")                                                    \
    X(write_home, FILES, ALLOWED, 0, 0, 0, "write the private home")                                                   \
    X(write_shm, FILES, ALLOWED, 0, 0, 0, "write the private /dev/shm")                                                \
    X(rename_output, FILES, ALLOWED, 0, 0, 0, "rename across directories of the output")                               \
    X(read_secret, FILES, DENIED, ENOENT, ENOENT, 0, "read a file that was not granted (E16)")                         \
    X(read_home, FILES, DENIED, ENOENT, ENOENT, 0, "see the caller's home (E16)")                                      \
    X(read_link, FILES, DENIED, ENOENT, ENOENT, 0, "read it through a link of one's own (E17)")                        \
    X(link_secret, FILES, DENIED, ENOENT, EXDEV, 0, "make a hard link to it (E19)")                                    \
    X(see_tmp, FILES, DENIED, ENOENT, ENOENT, 0, "see the machine's /tmp")                                             \
    X(see_shm, FILES, DENIED, ENOENT, ENOENT, 0, "see the machine's /dev/shm")                                         \
    X(see_var, FILES, DENIED, ENOENT, ENOENT, 0, "see /var")                                                           \
    X(see_sys, FILES, DENIED, ENOENT, ENOENT, 0, "see /sys")                                                           \
    X(see_run, FILES, DENIED, ENOENT, ENOENT, 0, "see /run")                                                           \
    X(see_cgroups, FILES, DENIED, ENOENT, ENOENT, 0, "see control groups (E44)")                                       \
    X(write_granted, FILES, DENIED, EROFS, EACCES, 0, "write what was granted for reading")                            \
    X(write_root, FILES, DENIED, EROFS, EACCES, R_OR_USERNS, "write beside the grants: it fails loudly (E30)")         \
    X(write_usr, FILES, DENIED, EROFS, EROFS, PROBE_ANY_ROOT, "write /usr")                                            \
    X(write_etc, FILES, DENIED, EROFS, EROFS, PROBE_ANY_ROOT, "write /etc")                                            \
    X(read_hidden, FILES, DENIED, ENODATA, ENODATA, 0, "read a hidden file: it is empty, of its own type (E31)")       \
    X(write_hidden, FILES, DENIED, EROFS, EACCES, 0, "write a hidden file")                                            \
    X(move_hidden, FILES, DENIED, EBUSY, EBUSY, 0, "move the parent of a hidden file away (E20)")                      \
    X(unlink_hidden, FILES, DENIED, EBUSY, EROFS, 0, "remove a hidden file and make another (E21)")                    \
    X(chmod_setuid, FILES, DENIED, EPERM, EPERM, 0, "set a setuid bit (E23)")                                          \
    X(chmod_setgid, FILES, DENIED, EPERM, EPERM, 0, "set a setgid bit (E23)")                                          \
    X(fchmod_setuid, FILES, DENIED, EPERM, EPERM, 0, "set a setuid bit of an open file (E23)")                         \
    X(create_setuid, FILES, DENIED, EPERM, EPERM, 0, "create a file with a setuid bit (E23)")                          \
    X(mkdir_setgid, FILES, DENIED, EPERM, EPERM, 0, "create a directory with a setgid bit (E23)")                      \
    X(openat2_call, FILES, DENIED, ENOSYS, ENOSYS, 0, "openat2, whose mode no filter sees (E23)")                      \
    X(make_device, FILES, DENIED, EPERM, EACCES, PROBE_ANY_ROOT, "make a device (E24, E46)")                           \
    X(open_by_handle, FILES, DENIED, EPERM, EPERM, PROBE_ANY_ROOT, "open a file by its handle (E45)")                  \
    X(file_lock, FILES, OPEN, 0, 0, 0, "lock a file of /usr (E32)")                                                    \
    X(memory_program, FILES, OPEN, 0, 0, 0, "run a program that is only in memory (E33)")                              \
    X(own_child, PROCESSES, ALLOWED, 0, 0, 0, "signal and trace a child of one's own")                                 \
    X(own_process, PROCESSES, ALLOWED, 0, 0, 0, "read /proc/self")                                                     \
    X(see_process, PROCESSES, DENIED, ENOENT, ENOENT, 0, "see a process of the machine (E01)")                         \
    X(walk_process_root, PROCESSES, DENIED, ENOENT, EACCES, 0, "walk into the root of a process (E01)")                \
    X(signal_process, PROCESSES, DENIED, ESRCH, ESRCH, 0, "signal a process of the machine (E05)")                     \
    X(trace_process, PROCESSES, DENIED, ESRCH, ESRCH, 0, "trace a process of the machine (E02)")                       \
    X(read_process, PROCESSES, DENIED, EPERM, EPERM, 0, "read a process's memory (E02)")                               \
    X(write_process, PROCESSES, DENIED, EPERM, EPERM, 0, "write a process's memory (E02)")                             \
    X(take_descriptor, PROCESSES, DENIED, EPERM, EPERM, 0, "take another process's descriptor")                        \
    X(compare_process, PROCESSES, DENIED, EPERM, EPERM, 0, "compare kernel objects (kcmp)")                            \
    X(first_environ, PROCESSES, DENIED, EACCES, EACCES, 0, "read the environment of the first process (E03)")          \
    X(first_memory, PROCESSES, DENIED, EACCES, EACCES, 0, "open the memory of the first process (E03)")                \
    X(first_program, PROCESSES, DENIED, EACCES, EACCES, 0, "find the program of the first process (E04)")              \
    X(first_descriptors, PROCESSES, DENIED, EACCES, EACCES, 0, "list the descriptors of the first process (E03)")      \
    X(first_trace, PROCESSES, DENIED, EPERM, EPERM, 0, "trace the first process (E03)")                                \
    X(first_signal, PROCESSES, DENIED, EPERM, EPERM, PROBE_SCOPES, "signal the first process (E05)")                   \
    X(namespace_user, PROCESSES, DENIED, EPERM, EPERM, 0, "make a user namespace (E34)")                               \
    X(namespace_user_clone, PROCESSES, DENIED, EPERM, EPERM, 0, "make a user namespace with clone (E34)")              \
    X(namespace_mount, PROCESSES, DENIED, EPERM, EPERM, R_OR_USERNS, "make a mount namespace (E34)")                   \
    X(namespace_network, PROCESSES, DENIED, EPERM, EPERM, R_OR_USERNS, "make a network namespace (E34)")               \
    X(namespace_process, PROCESSES, DENIED, EPERM, EPERM, R_OR_USERNS, "make a process namespace (E34)")               \
    X(namespace_ipc, PROCESSES, DENIED, EPERM, EPERM, R_OR_USERNS, "make an IPC namespace (E34)")                      \
    X(namespace_name, PROCESSES, DENIED, EPERM, EPERM, R_OR_USERNS, "make a host name namespace (E34)")                \
    X(namespace_group, PROCESSES, DENIED, EPERM, EPERM, R_OR_USERNS, "make a control group namespace (E34)")           \
    X(namespace_join, PROCESSES, DENIED, EPERM, EPERM, R_OR_USERNS, "join a namespace (E34)")                          \
    X(clone3_call, PROCESSES, DENIED, ENOSYS, ENOSYS, 0, "clone3, whose flags no filter sees (E34)")                   \
    X(is_root, PROCESSES, DENIED, EPERM, EPERM, PROBE_ANY_ROOT, "be uid 0")                                            \
    X(has_capability, PROCESSES, DENIED, EPERM, EPERM, R_OR_USERNS, "hold or regain a capability (E35)")               \
    X(gains_privileges, PROCESSES, DENIED, EPERM, EPERM, 0, "gain privileges by exec (no-new-privileges)")             \
    X(read_owned_by_root, PROCESSES, DENIED, EACCES, EACCES, PROBE_ANY_ROOT, "read a granted 0600 file of root's")     \
    X(descriptor, INHERITED, DENIED, EBADF, EBADF, 0, "use a descriptor of the caller's (E09)")                        \
    X(variable, INHERITED, DENIED, ENOENT, ENOENT, 0, "find a variable that was not declared (E10)")                   \
    X(session_key, INHERITED, DENIED, EPERM, EPERM, 0, "find the session's keys (E11)")                                \
    X(make_key, INHERITED, DENIED, EPERM, EPERM, 0, "add a key (E11)")                                                 \
    X(request_key_call, INHERITED, DENIED, EPERM, EPERM, 0, "request a key (E11)")                                     \
    X(shared_memory, INHERITED, DENIED, EINVAL, EINVAL, 0, "attach shared memory of the machine (E12)")                \
    X(message_queue, INHERITED, DENIED, ENOENT, ENOENT, 0, "open a message queue of the machine (E12)")                \
    X(ignored_signals, INHERITED, DENIED, ENOENT, ENOENT, 0, "inherit an ignored or blocked signal (E15)")             \
    X(loose_umask, INHERITED, DENIED, EPERM, EPERM, 0, "inherit the caller's umask (E15)")                             \
    X(dump_core, INHERITED, DENIED, EFBIG, EFBIG, 0, "leave a core file (E43)")                                        \
    X(mount_tmpfs, KERNEL, DENIED, EPERM, EPERM, R_OR_USERNS, "mount a file system (E34)")                             \
    X(remount, KERNEL, DENIED, EPERM, EPERM, PROBE_ANY_ROOT, "make /usr writable again (E35)")                         \
    X(unmount, KERNEL, DENIED, EPERM, EPERM, PROBE_ANY_ROOT, "take a cover away (E35)")                                \
    X(pivot, KERNEL, DENIED, EPERM, EPERM, R_OR_USERNS, "pivot_root (E35)")                                            \
    X(change_root, KERNEL, DENIED, EPERM, EPERM, R_OR_USERNS, "chroot")                                                \
    X(open_tree_call, KERNEL, DENIED, EPERM, EPERM, R_OR_USERNS, "open_tree (E36)")                                    \
    X(move_mount_call, KERNEL, DENIED, EPERM, EPERM, R_OR_USERNS, "move_mount (E36)")                                  \
    X(fsopen_call, KERNEL, DENIED, EPERM, EPERM, R_OR_USERNS, "fsopen (E36)")                                          \
    X(mount_setattr_call, KERNEL, DENIED, EPERM, EPERM, R_OR_USERNS, "mount_setattr (E36)")                            \
    X(io_uring, KERNEL, DENIED, ENOSYS, EPERM, 0, "io_uring_setup (E37)")                                              \
    X(userfault, KERNEL, DENIED, EPERM, EPERM, 0, "userfaultfd (E38)")                                                 \
    X(bpf_call, KERNEL, DENIED, EPERM, EPERM, PROBE_ANY_ROOT, "bpf (E39)")                                             \
    X(perf_call, KERNEL, DENIED, EPERM, EPERM, PROBE_ANY_ROOT, "perf_event_open (E39)")                                \
    X(second_abi, KERNEL, DENIED, ENOSYS, ENOSYS, 0, "a call of the 32-bit ABI (E40)")                                 \
    X(x32_abi, KERNEL, DENIED, ENOSYS, ENOSYS, X32, "a call of the x32 ABI (E40)")                                     \
    X(kernel_log, KERNEL, DENIED, EPERM, EPERM, PROBE_ANY_ROOT, "read the kernel's log (E41)")                         \
    X(kmsg, KERNEL, DENIED, ENOENT, ENOENT, DEVICE, "open /dev/kmsg (E41)")                                            \
    X(core_pattern, KERNEL, DENIED, EROFS, EACCES, PROBE_ANY_ROOT, "open core_pattern for writing (E42)")              \
    X(sysrq, KERNEL, DENIED, EROFS, EACCES, DEVICE, "open sysrq-trigger for writing (E42)")                            \
    X(memory_device, KERNEL, DENIED, ENOENT, ENOENT, DEVICE, "see /dev/mem (E46)")                                     \
    X(disk_device, KERNEL, DENIED, ENOENT, ENOENT, DEVICE, "see a disk (E46)")                                         \
    X(load_module, KERNEL, DENIED, EPERM, EPERM, PROBE_ANY_ROOT, "load a kernel module")                               \
    X(load_kernel, KERNEL, DENIED, EPERM, EPERM, PROBE_ANY_ROOT, "load another kernel")                                \
    X(terminal_input, KERNEL, DENIED, EPERM, EPERM, 0, "type into a terminal (E13)")                                   \
    X(terminal_input_high, KERNEL, DENIED, EPERM, EPERM, 0, "the same with a bit above the low 32 (E13)")              \
    X(own_loopback, NETWORK, ALLOWED, 0, 0, 0, "listen and connect on its own loopback")                               \
    X(socket_pair, NETWORK, ALLOWED, 0, 0, 0, "use a pair of Unix sockets")                                            \
    X(route_socket, NETWORK, ALLOWED, 0, 0, 0, "ask for interfaces (NETLINK_ROUTE)")                                   \
    X(host_loopback, NETWORK, DENIED, ECONNREFUSED, ECONNREFUSED, 0, "reach the machine's loopback (E51)")             \
    X(host_loopback_6, NETWORK, DENIED, ECONNREFUSED, EADDRNOTAVAIL, IPV6, "the same over IPv6 (E51)")                 \
    X(outside, NETWORK, DENIED, ENETUNREACH, ENETUNREACH, ROUTE, "reach the outside (E54)")                            \
    X(outside_datagram, NETWORK, DENIED, ENETUNREACH, ENETUNREACH, ROUTE, "send a datagram outside (E53, E54)")        \
    X(metadata, NETWORK, DENIED, ENETUNREACH, ENETUNREACH, ROUTE, "reach the address of cloud metadata (E52)")         \
    X(abstract_socket, NETWORK, DENIED, ECONNREFUSED, EPERM, 0, "reach an abstract socket (E48)")                      \
    X(path_socket, NETWORK, DENIED, ENOENT, ENOENT, 0, "reach a socket file that was not granted (E47)")               \
    X(vm_socket, NETWORK, DENIED, EAFNOSUPPORT, EAFNOSUPPORT, 0, "make a VM socket (E49)")                             \
    X(packet_socket, NETWORK, DENIED, EAFNOSUPPORT, EAFNOSUPPORT, PROBE_ANY_ROOT, "make a packet socket (E50)")        \
    X(crypto_socket, NETWORK, DENIED, EAFNOSUPPORT, EAFNOSUPPORT, DEVICE, "make an AF_ALG socket (E50)")               \
    X(raw_socket, NETWORK, DENIED, EPERM, EPERM, PROBE_ANY_ROOT, "make a raw socket (E50)")                            \
    X(audit_socket, NETWORK, DENIED, EAFNOSUPPORT, EAFNOSUPPORT, 0, "make a netlink socket but for routes (E50)")      \
    X(high_family, NETWORK, DENIED, EAFNOSUPPORT, EAFNOSUPPORT, 0, "hide a family above the low 32 bits (E49)")        \
    X(fork_bomb, RESOURCES, DENIED, EAGAIN, EAGAIN, 0, "start more processes than allowed (E67)")                      \
    X(much_memory, RESOURCES, DENIED, ENOMEM, ENOMEM, 0, "use more memory than allowed (E68)")                         \
    X(big_tmp, RESOURCES, DENIED, ENOSPC, ENOSPC, 0, "fill /tmp beyond its size (E68)")                                \
    X(big_shm, RESOURCES, DENIED, ENOSPC, ENOSPC, 0, "fill /dev/shm beyond its size (E68)")                            \
    X(big_home, RESOURCES, DENIED, ENOSPC, EDQUOT, HOME_SIZE, "fill the home beyond its size (E68)")                   \
    X(big_file, RESOURCES, DENIED, EFBIG, EFBIG, 0, "write a file beyond its limit (E69)")                             \
    X(sparse_file, RESOURCES, DENIED, EFBIG, EFBIG, 0, "make a sparse file beyond the limit (E70)")                    \
    X(many_descriptors, RESOURCES, DENIED, EMFILE, EMFILE, 0, "open more descriptors than allowed (E72)")

/* Where the mechanism "landlock" answers otherwise (mechanisms/landlock.h): with another error, or, 0, it promises
 * nothing: what needs a mount or a namespace of its own.
 *
 * X(name, expected, or this) */
#define PROBE_IN_PLACE(X)                                                                                              \
    X(write_tmp, 0, 0)                                                                                                 \
    X(write_home, 0, 0)                                                                                                \
    X(write_shm, 0, 0)                                                                                                 \
    X(read_secret, EACCES, EACCES)                                                                                     \
    X(read_home, 0, 0)                                                                                                 \
    X(read_link, EACCES, EACCES)                                                                                       \
    X(link_secret, EXDEV, EPERM)                                                                                       \
    X(see_tmp, 0, 0)                                                                                                   \
    X(see_shm, 0, 0)                                                                                                   \
    X(see_var, 0, 0)                                                                                                   \
    X(see_sys, 0, 0)                                                                                                   \
    X(see_run, 0, 0)                                                                                                   \
    X(see_cgroups, 0, 0)                                                                                               \
    X(write_usr, EACCES, EACCES)                                                                                       \
    X(write_etc, EACCES, EACCES)                                                                                       \
    X(read_hidden, 0, 0)                                                                                               \
    X(write_hidden, 0, 0)                                                                                              \
    X(move_hidden, 0, 0)                                                                                               \
    X(unlink_hidden, 0, 0)                                                                                             \
    X(see_process, 0, 0)                                                                                               \
    X(walk_process_root, EACCES, EACCES)                                                                               \
    X(signal_process, EPERM, EPERM)                                                                                    \
    X(trace_process, EPERM, EPERM)                                                                                     \
    X(shared_memory, EPERM, EPERM)                                                                                     \
    X(message_queue, EPERM, EPERM)                                                                                     \
    X(kmsg, 0, 0)                                                                                                      \
    X(memory_device, 0, 0)                                                                                             \
    X(disk_device, 0, 0)                                                                                               \
    X(terminal_input, ENODEV, ENODEV)                                                                                  \
    X(terminal_input_high, ENODEV, ENODEV)                                                                             \
    X(own_loopback, 0, 0)                                                                                              \
    X(route_socket, 0, 0)                                                                                              \
    X(host_loopback, EAFNOSUPPORT, EAFNOSUPPORT)                                                                       \
    X(host_loopback_6, EAFNOSUPPORT, EAFNOSUPPORT)                                                                     \
    X(outside, EAFNOSUPPORT, EAFNOSUPPORT)                                                                             \
    X(outside_datagram, EAFNOSUPPORT, EAFNOSUPPORT)                                                                    \
    X(metadata, EAFNOSUPPORT, EAFNOSUPPORT)                                                                            \
    X(abstract_socket, EAFNOSUPPORT, EAFNOSUPPORT)                                                                     \
    X(path_socket, EAFNOSUPPORT, EAFNOSUPPORT)                                                                         \
    X(raw_socket, EAFNOSUPPORT, EAFNOSUPPORT)                                                                          \
    X(big_tmp, 0, 0)                                                                                                   \
    X(big_shm, 0, 0)                                                                                                   \
    X(big_home, 0, 0)

/* Further needs. */
#define R_OR_USERNS 4 /* root, or a user namespace made for the control outside */
#define X32 8         /* the kernel has that ABI */
#define IPV6 16       /* the machine has ::1 */
#define ROUTE 32      /* the machine has a route to anywhere */
#define DEVICE 128    /* the machine has that device, or its kernel that family */
#define HOME_SIZE 64  /* not tried outside: the machine's home is no test's to fill */

enum probe_group { FILES, PROCESSES, INHERITED, KERNEL, NETWORK, RESOURCES, PROBE_GROUP_COUNT };
enum probe_kind { ALLOWED, DENIED, OPEN, PROBE_KIND_COUNT };

enum probe_id {
#define X(name, group, kind, expected, other, needs, what) PROBE_##name,
    PROBE_TABLE(X)
#undef X
        PROBE_COUNT
};

#endif
