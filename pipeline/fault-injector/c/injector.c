// Preloaded into a process, this sees every call that changes a file below a folder, numbers them,
// and makes the one it is told to go wrong.
//
// It does not replace functions of libc: code that makes system calls by itself, as rustix does, and
// calls from inside libc would get past it. A seccomp filter stops the calls instead, whoever makes
// them, and the handler of SIGSYS decides what becomes of each. Calls of the handler itself are told
// by where they come from, and are let through.
//
// A process that is looked into must start no other program: filters are inherited, handlers are not.
//
// Settings, all of them environment variables; without the first two it does nothing:
//   FAULT_INJECTOR_PREFIX  the folder, absolute and without links
//   FAULT_INJECTOR_REPORT  a file that gets a line per call: number, name, bytes, path, other path
//   FAULT_INJECTOR_AT      the number of the call that goes wrong, from 1; none for counting only
//   FAULT_INJECTOR_KIND    how, see `kinds`

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
// Calls `number` with six arguments; `fault_injector_back` is where the kernel comes back to.
__asm__(".text\n"
        ".local fault_injector_call\n"
        "fault_injector_call:\n"
        "  mov %rdi, %rax\n  mov %rsi, %rdi\n  mov %rdx, %rsi\n  mov %rcx, %rdx\n"
        "  mov %r8, %r10\n  mov %r9, %r8\n  mov 8(%rsp), %r9\n"
        "  syscall\n"
        ".local fault_injector_back\n"
        "fault_injector_back:\n"
        "  ret\n");
#define ARGUMENT_REGISTERS                                                                         \
    { REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9 }
#define REGISTER(context, index) ((context)->uc_mcontext.gregs[index])
#define RESULT_REGISTER REG_RAX
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
__asm__(".text\n"
        ".local fault_injector_call\n"
        "fault_injector_call:\n"
        "  mov x8, x0\n  mov x0, x1\n  mov x1, x2\n  mov x2, x3\n  mov x3, x4\n"
        "  mov x4, x5\n  mov x5, x6\n"
        "  svc #0\n"
        ".local fault_injector_back\n"
        "fault_injector_back:\n"
        "  ret\n");
#define ARGUMENT_REGISTERS                                                                         \
    { 0, 1, 2, 3, 4, 5 }
#define REGISTER(context, index) ((context)->uc_mcontext.regs[index])
#define RESULT_REGISTER 0
#else
#error "the registers of this architecture are not known here"
#endif

__attribute__((visibility("hidden"))) long fault_injector_call(long number, long, long, long, long,
                                                               long, long);
__attribute__((visibility("hidden"))) extern const char fault_injector_back[];

#define RAW(number, a, b, c) fault_injector_call(number, (long)(a), (long)(b), (long)(c), 0, 0, 0)

// Where a call says what it changes, and what it does.
enum shape {
    OPEN,        // path, flags
    OPEN_AT,     // folder, path, flags
    WRITE,       // descriptor, bytes, length
    WRITE_MANY,  // descriptor, vectors, count
    SEND,        // descriptor, from, offset, length
    COPY,        // from, offset, descriptor, offset, length
    ALLOCATE,    // descriptor; takes room
    SYNC,        // descriptor
    MAKE,        // path; takes room
    MAKE_AT,     // folder, path; takes room
    REMOVE,      // path
    REMOVE_AT,   // folder, path
    MOVE,        // path, path
    MOVE_AT,     // folder, path, folder, path
    LINK,        // path, path; takes room
    LINK_AT,     // folder, path, folder, path; takes room
    SYMLINK,     // text, path; takes room
    SYMLINK_AT,  // text, folder, path; takes room
};

struct watched {
    long number;
    const char *name;
    enum shape shape;
};

static const struct watched watched[] = {
#ifdef SYS_open
    {SYS_open, "open", OPEN},
    {SYS_creat, "creat", MAKE},
    {SYS_mkdir, "mkdir", MAKE},
    {SYS_rmdir, "rmdir", REMOVE},
    {SYS_unlink, "unlink", REMOVE},
    {SYS_rename, "rename", MOVE},
    {SYS_link, "link", LINK},
    {SYS_symlink, "symlink", SYMLINK},
#endif
#ifdef SYS_renameat
    {SYS_renameat, "rename", MOVE_AT},
#endif
    {SYS_openat, "open", OPEN_AT},
    {SYS_write, "write", WRITE},
    {SYS_pwrite64, "write", WRITE},
    {SYS_writev, "writev", WRITE_MANY},
    {SYS_pwritev, "writev", WRITE_MANY},
    {SYS_pwritev2, "writev", WRITE_MANY},
    {SYS_sendfile, "sendfile", SEND},
    {SYS_copy_file_range, "copy_file_range", COPY},
    {SYS_fallocate, "fallocate", ALLOCATE},
    {SYS_ftruncate, "ftruncate", ALLOCATE},
    {SYS_truncate, "truncate", MAKE},
    {SYS_fsync, "fsync", SYNC},
    {SYS_fdatasync, "fdatasync", SYNC},
    {SYS_mkdirat, "mkdir", MAKE_AT},
    {SYS_unlinkat, "unlink", REMOVE_AT},
    {SYS_renameat2, "rename", MOVE_AT},
    {SYS_linkat, "link", LINK_AT},
    {SYS_symlinkat, "symlink", SYMLINK_AT},
};
#define WATCHED (sizeof watched / sizeof watched[0])
#define CHANGES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)

enum kind { NONE, KILL, NO_SPACE, FULL, IO, CUT_KILL, CUT_FULL, INTERRUPT, TERMINATE };
static const char *const kinds[] = {
    "none",     // nothing
    "kill",     // the process ends before the call
    "no-space", // this call fails with ENOSPC
    "full",     // from this call on, whatever takes room fails with ENOSPC
    "io",       // this call fails with EIO
    "cut-kill", // half of a write is done, then the process ends
    "cut-full", // half of a write is done and said to be done, then the disk is full
    "int",      // SIGINT arrives before the call
    "term",     // SIGTERM
};

static char prefix[PATH_MAX];
static size_t prefix_length;
static int report = -1;
static unsigned long at;
static enum kind kind;
static atomic_ulong seen;
static atomic_bool is_full;

struct call {
    const struct watched *what;
    long number, arguments[6];
    char path[PATH_MAX], other[PATH_MAX];
    size_t bytes;
};

static void path_of_descriptor(long descriptor, char *path) {
    char link[64];
    if ((int)descriptor == AT_FDCWD)
        strcpy(link, "/proc/self/cwd");
    else
        snprintf(link, sizeof link, "/proc/self/fd/%d", (int)descriptor);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = 0;
}

static void path_at(long folder, long text, char *path) {
    const char *name = (const char *)text;
    size_t length = 0;
    if (name[0] != '/') {
        path_of_descriptor(folder, path);
        length = strlen(path);
        if (length < PATH_MAX - 1)
            path[length++] = '/';
    }
    size_t wanted = strlen(name);
    if (wanted > PATH_MAX - 1 - length)
        wanted = PATH_MAX - 1 - length;
    memcpy(path + length, name, wanted);
    path[length + wanted] = 0;
}

static bool is_below(const char *path) {
    return strncmp(path, prefix, prefix_length) == 0 &&
           (path[prefix_length] == '/' || path[prefix_length] == 0);
}

// Finds out what a call changes.
static void look(struct call *call) {
    const long *a = call->arguments;
    call->path[0] = call->other[0] = 0;
    call->bytes = 0;
    switch (call->what->shape) {
    case OPEN:
    case MAKE:
    case REMOVE:
        path_at(AT_FDCWD, a[0], call->path);
        break;
    case OPEN_AT:
    case MAKE_AT:
    case REMOVE_AT:
        path_at(a[0], a[1], call->path);
        break;
    case WRITE:
        call->bytes = (size_t)a[2];
        path_of_descriptor(a[0], call->path);
        break;
    case WRITE_MANY: {
        const struct iovec *vectors = (const struct iovec *)a[1];
        for (long n = 0; n < a[2]; n++)
            call->bytes += vectors[n].iov_len;
        path_of_descriptor(a[0], call->path);
        break;
    }
    case SEND:
        call->bytes = (size_t)a[3];
        path_of_descriptor(a[0], call->path);
        break;
    case COPY:
        call->bytes = (size_t)a[4];
        path_of_descriptor(a[2], call->path);
        break;
    case ALLOCATE:
    case SYNC:
        path_of_descriptor(a[0], call->path);
        break;
    case MOVE:
    case LINK:
        path_at(AT_FDCWD, a[0], call->other);
        path_at(AT_FDCWD, a[1], call->path);
        break;
    case MOVE_AT:
    case LINK_AT:
        path_at(a[0], a[1], call->other);
        path_at(a[2], a[3], call->path);
        break;
    case SYMLINK:
        path_at(AT_FDCWD, a[1], call->path);
        break;
    case SYMLINK_AT:
        path_at(a[1], a[2], call->path);
        break;
    }
}

static bool takes_room(const struct call *call) {
    switch (call->what->shape) {
    case SYNC:
    case REMOVE:
    case REMOVE_AT:
    case MOVE:
    case MOVE_AT:
        return false;
    case OPEN:
        return (call->arguments[1] & O_CREAT) != 0;
    case OPEN_AT:
        return (call->arguments[2] & O_CREAT) != 0;
    default:
        return true;
    }
}

static long pass(const struct call *call) {
    const long *a = call->arguments;
    return fault_injector_call(call->number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// Does the first half of a write; false for a call that is none.
static bool cut(const struct call *call, long *done) {
    const long *a = call->arguments;
    switch (call->what->shape) {
    case WRITE:
        *done = fault_injector_call(call->number, a[0], a[1], a[2] / 2, a[3], a[4], a[5]);
        return true;
    case WRITE_MANY: {
        const struct iovec *vectors = (const struct iovec *)a[1];
        *done = a[2] > 0 ? RAW(SYS_write, a[0], vectors[0].iov_base, vectors[0].iov_len / 2) : 0;
        return true;
    }
    case SEND:
        *done = fault_injector_call(call->number, a[0], a[1], a[2], a[3] / 2, a[4], a[5]);
        return true;
    case COPY:
        *done = fault_injector_call(call->number, a[0], a[1], a[2], a[3], a[4] / 2, a[5]);
        return true;
    default:
        return false;
    }
}

static void send_signal(int signal) { RAW(SYS_kill, getpid(), signal, 0); }

static long go_wrong(const struct call *call) {
    long done;
    switch (kind) {
    case KILL:
        send_signal(SIGKILL);
        break;
    case NO_SPACE:
        return -ENOSPC;
    case FULL:
        atomic_store(&is_full, true);
        return takes_room(call) ? -ENOSPC : pass(call);
    case IO:
        return -EIO;
    case CUT_KILL:
        cut(call, &done);
        send_signal(SIGKILL);
        break;
    case CUT_FULL:
        atomic_store(&is_full, true);
        if (!cut(call, &done))
            return takes_room(call) ? -ENOSPC : pass(call);
        // A write of no bytes at all would be taken for the end.
        return done == 0 ? -ENOSPC : done;
    case INTERRUPT:
        send_signal(SIGINT);
        break;
    case TERMINATE:
        send_signal(SIGTERM);
        break;
    case NONE:
        break;
    }
    return pass(call);
}

static void note(const struct call *call, unsigned long number) {
    char line[2 * PATH_MAX + 128];
    int length = snprintf(line, sizeof line, "%lu\t%s\t%zu\t%s\t%s\n", number, call->what->name,
                          call->bytes, call->path, call->other);
    // One write, to a file opened for appending: lines of several threads do not mix.
    RAW(SYS_write, report, line, length);
}

static long judge(struct call *call) {
    look(call);
    if (!is_below(call->path) && !is_below(call->other))
        return pass(call);
    unsigned long number = atomic_fetch_add(&seen, 1) + 1;
    note(call, number);
    if (number == at)
        return go_wrong(call);
    if (atomic_load(&is_full) && takes_room(call))
        return -ENOSPC;
    return pass(call);
}

static void on_trap(int signal, siginfo_t *info, void *context_) {
    (void)signal;
    static const int registers[6] = ARGUMENT_REGISTERS;
    ucontext_t *context = context_;
    int saved = errno;
    struct call call = {.what = NULL, .number = info->si_syscall};
    for (size_t n = 0; n < 6; n++)
        call.arguments[n] = (long)REGISTER(context, registers[n]);
    for (size_t n = 0; n < WATCHED; n++)
        if (watched[n].number == call.number)
            call.what = &watched[n];
    long result = call.what ? judge(&call) : -ENOSYS;
    REGISTER(context, RESULT_REGISTER) = result;
    errno = saved;
}

static void give_up(const char *why) {
    dprintf(2, "fault-injector: %s: %s\n", why, strerror(errno));
    _exit(97);
}

static void install(void) {
    struct sock_filter program[16 + 5 * WATCHED];
    unsigned short length = 0;
    unsigned long back = (unsigned long)fault_injector_back;
#define ADD(...) program[length++] = (struct sock_filter)__VA_ARGS__
#define FIELD(field) (unsigned)offsetof(struct seccomp_data, field)
#define LOAD(offset) ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset))
#define JUMP(test, value, yes, no) ADD(BPF_JUMP(BPF_JMP | test | BPF_K, value, yes, no))
#define RETURN(what) ADD(BPF_STMT(BPF_RET | BPF_K, what))
    LOAD(FIELD(arch));
    JUMP(BPF_JEQ, ARCHITECTURE, 1, 0);
    RETURN(SECCOMP_RET_ALLOW);
    LOAD(FIELD(instruction_pointer));
    JUMP(BPF_JEQ, (unsigned)back, 0, 3);
    LOAD(FIELD(instruction_pointer) + 4);
    JUMP(BPF_JEQ, (unsigned)(back >> 32), 0, 1);
    RETURN(SECCOMP_RET_ALLOW);
    LOAD(FIELD(nr));
    for (size_t n = 0; n < WATCHED; n++) {
        bool opens = watched[n].shape == OPEN || watched[n].shape == OPEN_AT;
        JUMP(BPF_JEQ, (unsigned)watched[n].number, 0, opens ? 4 : 1);
        if (opens) {
            LOAD(FIELD(args[0]) + 8 * (watched[n].shape == OPEN ? 1 : 2));
            JUMP(BPF_JSET, CHANGES, 1, 0);
            RETURN(SECCOMP_RET_ALLOW);
        }
        RETURN(SECCOMP_RET_TRAP);
    }
    RETURN(SECCOMP_RET_ALLOW);

    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER};
    if (sigaction(SIGSYS, &action, NULL) != 0)
        give_up("sigaction");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        give_up("prctl");
    struct sock_fprog filter = {.len = length, .filter = program};
    long done = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
    if (done != 0)
        give_up("this system lets no process filter its calls (seccomp)");
}

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("FAULT_INJECTOR_PREFIX"), *file = getenv("FAULT_INJECTOR_REPORT");
    if (!folder || !file)
        return;
    prefix_length = strlen(folder);
    if (prefix_length >= sizeof prefix) {
        errno = ENAMETOOLONG;
        give_up(folder);
    }
    strcpy(prefix, folder);
    const char *number = getenv("FAULT_INJECTOR_AT"), *name = getenv("FAULT_INJECTOR_KIND");
    if (number && name) {
        at = strtoul(number, NULL, 10);
        for (size_t n = 0; n < sizeof kinds / sizeof kinds[0]; n++)
            if (strcmp(kinds[n], name) == 0)
                kind = (enum kind)n;
        if (kind == NONE) {
            errno = EINVAL;
            give_up(name);
        }
    }
    int opened = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    // Out of the way of a program that counts on low numbers.
    report = opened < 0 ? -1 : fcntl(opened, F_DUPFD_CLOEXEC, 500);
    if (report < 0)
        give_up(file);
    close(opened);
    install();
}
