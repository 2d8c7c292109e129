/* The launcher: starts the programs of attempts. See launcher.py and docs/design/0068.
 *
 * It is a child of the supervisor that waits for requests on a socket: `launcher 9` serves descriptor 9. For each one it
 * forks, which is cheap because it is tiny. The child is one of the supervisor (CLONE_PARENT), so it is waited for like
 * any other. It carries out its orders and becomes the program. Nothing of Python runs between fork and exec.
 *
 * Several requests come at once. The message begins with two numbers of 32 bits: the bytes that follow, and the number of
 * requests. Each request begins with four: the bytes of its texts, the number of words, of environment variables, and
 * of descriptors. Then come words and variables, each with a zero byte at its end. The descriptors come along in the same
 * order: one on which errors are reported, and perhaps one for the program. Each is answered by two numbers of 64 bits:
 * the pid, or the negative errno, and the start of the process in clock ticks since boot, or 0 if it is not certain.
 *
 * Each word is an order, a letter followed by a value, in any order. They are carried out in the order of `become`.
 * Errors are reported as "STEP ERRNO".
 *
 *   l4611…      mark: the hard limit RLIMIT_LOCKS
 *   s           lead a new session
 *   g/PATH      make this control group, and enter it
 *   f/PATH      the folder of the attempt: stdout, stderr, work
 *   k           make that folder; one that is there already must belong to the executor
 *   d/PATH      working directory; without it, the folder "work" of the attempt
 *   r/PATH      an empty folder of the account that becomes "work"
 *   n1024:4096  soft and hard limit of open files
 *   u512:1024   soft and hard limit of processes
 *   m1000       limit of data of each process, in bytes
 *   o-500       score for the kernel's memory killer
 *   t           the program gets the descriptor for errors as descriptor 3; else it is closed by the exec
 *   a1:2:3,4    account: uid, gid and groups
 *   x           the account is not that of the executor: hide foreign processes and keys, allow no new rights
 *   e/PATH      a file that may be the program; the first that can be executed
 *   capitals    a container, in which the program starts: see launcher_container.h
 *   --          what follows are the arguments of the program
 *
 * It uses no library: so it is small, runs wherever the kernel does, and needs only a compiler to be built.
 */

#if defined(__x86_64__)
enum {
    NR_read = 0, NR_wait4 = 61, NR_kill = 62, NR_getppid = 110, NR_capset = 126, NR_ppoll = 271, NR_pipe2 = 293,
    NR_socketpair = 53, NR_setsockopt = 54, NR_setns = 308, NR_pidfd_open = 434,
    NR_write = 1, NR_close = 3, NR_rt_sigaction = 13, NR_rt_sigprocmask = 14, NR_recvmsg = 47, NR_clone = 56,
    NR_execve = 59, NR_fcntl = 72, NR_chdir = 80, NR_fchmod = 91, NR_fchown = 93, NR_setsid = 112, NR_setgroups = 116, NR_setresuid = 117,
    NR_setresgid = 119, NR_prctl = 157, NR_mount = 165, NR_exit_group = 231, NR_keyctl = 250, NR_openat = 257,
    NR_mkdirat = 258, NR_fchownat = 260, NR_unlinkat = 263,
    NR_renameat2 = 316, NR_unshare = 272, NR_dup3 = 292, NR_prlimit64 = 302, NR_clone3 = 435,
    NR_geteuid = 107, NR_getpid = 39, NR_clock_gettime = 228, NR_statx = 332
};
enum { O_DIRECTORY = 0200000, O_NOFOLLOW = 0400000 };

static long call(long number, long a, long b, long c, long d, long e) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
}

__asm__(".globl _start\n_start: xor %ebp, %ebp\n mov %rsp, %rdi\n and $-16, %rsp\n call start\n");

#elif defined(__aarch64__)
enum {
    NR_read = 63, NR_wait4 = 260, NR_kill = 129, NR_getppid = 173, NR_capset = 91, NR_ppoll = 73, NR_pipe2 = 59,
    NR_socketpair = 199, NR_setsockopt = 208, NR_setns = 268, NR_pidfd_open = 434,
    NR_write = 64, NR_close = 57, NR_rt_sigaction = 134, NR_rt_sigprocmask = 135, NR_recvmsg = 212, NR_clone = 220,
    NR_execve = 221, NR_fcntl = 25, NR_chdir = 49, NR_fchmod = 52, NR_fchown = 55, NR_setsid = 157, NR_setgroups = 159, NR_setresuid = 147,
    NR_setresgid = 149, NR_prctl = 167, NR_mount = 40, NR_exit_group = 94, NR_keyctl = 219, NR_openat = 56,
    NR_mkdirat = 34, NR_fchownat = 54, NR_unlinkat = 35,
    NR_renameat2 = 276, NR_unshare = 97, NR_dup3 = 24, NR_prlimit64 = 261, NR_clone3 = 435,
    NR_geteuid = 175, NR_getpid = 172, NR_clock_gettime = 113, NR_statx = 291
};
enum { O_DIRECTORY = 040000, O_NOFOLLOW = 0100000 };

static long call(long number, long a, long b, long c, long d, long e) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
}

__asm__(".globl _start\n_start: mov x29, 0\n mov x0, sp\n bl start\n");

#else
#error "the launcher is not written for this processor"
#endif

enum { O_WRONLY = 01, O_CREAT = 0100, O_APPEND = 02000, O_CLOEXEC = 02000000, O_PATH = 010000000, AT_FDCWD = -100 };
enum { ENOENT = 2, EINTR = 4, EAGAIN = 11, EACCES = 13, EEXIST = 17, ENOTDIR = 20, EINVAL = 22, ENAMETOOLONG = 36, ENOSYS = 38 };
enum { EPERM = 1, ESRCH = 3, ETIMEDOUT = 110, E2BIG = 7, EBADF = 9, EOPNOTSUPP = 95 };
enum { CLONE_PARENT = 0x8000, SIGCHLD = 17, MSG_CMSG_CLOEXEC = 0x40000000 };
enum { F_DUPFD_CLOEXEC = 1030, SIG_SETMASK = 2, SIGNALS = 64, PR_SET_NO_NEW_PRIVS = 38, JOIN_SESSION_KEYRING = 1 };
enum { RLIMIT_DATA = 2, RLIMIT_NPROC = 6, RLIMIT_NOFILE = 7, RLIMIT_LOCKS = 10 };
enum { AT_SYMLINK_NOFOLLOW = 0x100, STATX_UID = 8, CLOCK_BOOTTIME = 7 };
enum { CLONE_NEWNS = 0x20000, MS_NOSUID = 2, MS_NODEV = 4, MS_NOEXEC = 8, MS_REC = 1 << 14, MS_SLAVE = 1 << 19 };
enum { MOST_FILES = 256, MOST_GROUPS = 65536, MOST_PATH = 4096, TRIES = 100 };
enum { HEAD = 8, REQUEST_HEAD = 16, MOST_BYTES = 1 << 20, MOST_WORDS = 1 << 16, MOST_FILES_SENT = 253 };

typedef unsigned long number;

static const number CLONE_INTO_CGROUP = 1ul << 33;
/* What /proc counts starts in, on all processors: a hundredth of a second. */
static const number SECOND = 1000000000ul, TICK = 10000000ul;

/* The kernel gives pages of these only where they are written. */
static char requests[MOST_BYTES + 8];
static char *texts[MOST_WORDS + 8];
static unsigned groups[MOST_GROUPS];
static number groups_seen;
static int enters = 1; /* whether the kernel makes processes inside a control group */
static long pipe_end = 2; /* where errors are reported */

/* --- texts --- */

static number length(const char *text) {
    number n = 0;
    while (text[n]) n++;
    return n;
}

/* Write a number at `to`; return its end. */
static char *decimal(char *to, number value) {
    char digits[24];
    int n = 0;
    do digits[n++] = (char)('0' + value % 10); while (value /= 10);
    while (n) *to++ = digits[--n];
    return to;
}

/* Read a number, and move behind it. */
static number numeral(const char **text) {
    number value = 0;
    while (**text >= '0' && **text <= '9') value = value * 10 + (number)(*(*text)++ - '0');
    return value;
}

/* Write `folder` and `name` to `to`; return -ENAMETOOLONG if they are too long. */
static long joined(char *to, const char *folder, const char *name) {
    number n = length(folder), m = length(name);
    if (n + m >= MOST_PATH) return -ENAMETOOLONG;
    for (number i = 0; i < n; i++) to[i] = folder[i];
    for (number i = 0; i <= m; i++) to[n + i] = name[i];
    return 0;
}

/* --- steps --- */

/* Report a failed step, and end; a `result` that is no error is left alone. */
static long done(const char *step, long result) {
    char text[64], *to = text;
    if (result >= 0) return result;
    while (*step) *to++ = *step++;
    *to++ = ' ';
    to = decimal(to, (number)-result);
    call(NR_write, pipe_end, (long)text, to - text, 0, 0);
    call(NR_exit_group, 127, 0, 0, 0, 0);
    return 0;
}

/* Move a descriptor to where the program gets none; it closes with the exec. */
static long moved(long file) {
    if (file <= 2) return file;
    long result = call(NR_fcntl, file, F_DUPFD_CLOEXEC, 5, 0, 0);
    if (result >= 0) call(NR_close, file, 0, 0, 0, 0);
    return result;
}

static long opened(const char *folder, const char *name, long flags) {
    char path[MOST_PATH];
    long wrong = joined(path, folder, name);
    return wrong ? wrong : call(NR_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, 0644, 0);
}

static long limited(long which, const char *text) {
    number limit[2];
    limit[0] = limit[1] = numeral(&text);
    if (*text == ':') {
        text++;
        limit[1] = numeral(&text);
    }
    return call(NR_prlimit64, 0, which, (long)limit, 0, 0);
}

static long written(const char *folder, const char *name, const char *text) {
    long file = opened(folder, name, O_WRONLY);
    if (file < 0) return file;
    long result = call(NR_write, file, (long)text, (long)length(text), 0, 0);
    call(NR_close, file, 0, 0, 0, 0);
    return result;
}

/* Make the folder of an attempt. The owner of one that is there may have put links in the place of its files. */
static long made_folder(const char *folder) {
    unsigned facts[64]; /* struct statx: the sixth number is the uid */
    long result = call(NR_mkdirat, AT_FDCWD, (long)folder, 0750, 0, 0);
    if (result != -EEXIST) return result;
    if (call(NR_statx, AT_FDCWD, (long)folder, AT_SYMLINK_NOFOLLOW, STATX_UID, (long)facts) < 0) return result;
    return (long)facts[5] == call(NR_geteuid, 0, 0, 0, 0, 0) ? 0 : result;
}

/* Make a control group. Another executor may remove its parents at the same moment, if they are empty. */
static long grouped(const char *path) {
    char part[MOST_PATH];
    long result = joined(part, path, "");
    for (int i = 0; i < TRIES && !result; i++) {
        result = call(NR_mkdirat, AT_FDCWD, (long)path, 0777, 0, 0);
        if (result != -ENOENT) break;
        for (number n = 1; part[n]; n++) {
            if (part[n] != '/') continue;
            part[n] = 0;
            call(NR_mkdirat, AT_FDCWD, (long)part, 0777, 0, 0);
            part[n] = '/';
        }
        if (i + 1 < TRIES) result = 0;
    }
    return result == -EEXIST ? 0 : result;
}

static long output(const char *folder, const char *name, long to, int own, number uid, number gid) {
    long file = opened(folder, name, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW);
    if (file < 0) return file;
    long result = own ? call(NR_fchown, file, (long)uid, (long)gid, 0, 0) : 0;
    return result < 0 ? result : call(NR_dup3, file, to, 0, 0, 0);
}

/* Make a kept folder the working directory; return 0 if one must be made. See work_folders.py. */
static int owned(const char *kept, const char *work) {
    if (call(NR_renameat2, AT_FDCWD, (long)kept, AT_FDCWD, (long)work, 0) < 0) return 0;
    long file = opened(work, "", O_DIRECTORY | O_NOFOLLOW);
    if (file >= 0) call(NR_close, file, 0, 0, 0, 0);
    else call(NR_unlinkat, AT_FDCWD, (long)work, 0, 0, 0);
    return file >= 0;
}

/* The private /proc shows only processes which the reader may trace. It is left out where it is not possible. */
static void hide_processes(void) {
    if (call(NR_unshare, CLONE_NEWNS, 0, 0, 0, 0) < 0) return;
    if (call(NR_mount, (long)"none", (long)"/", 0, MS_REC | MS_SLAVE, 0) < 0) return;
    call(NR_mount, (long)"proc", (long)"/proc", (long)"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, (long)"hidepid=2");
}

/* Block all signals, with their default effects: one between fork and exec stays pending until it has it in the child. */
static void prepare_signals(void) {
    number usual[4] = {0, 0, 0, 0}, all = ~0ul; /* struct kernel_sigaction: SIG_DFL */
    call(NR_rt_sigprocmask, SIG_SETMASK, (long)&all, 0, 8, 0);
    for (long n = 1; n <= SIGNALS; n++) call(NR_rt_sigaction, n, (long)usual, 0, 8, 0);
}

static void unblock_signals(void) {
    number none = 0;
    call(NR_rt_sigprocmask, SIG_SETMASK, (long)&none, 0, 8, 0);
}

struct message { /* struct msghdr of the kernel */
    void *name;
    unsigned name_length;
    struct { char *base; number length; } *parts;
    number count;
    void *control;
    number control_length;
    unsigned flags;
};

#include "launcher_container.h"

/* Carry out the orders, and become the program. `handed` is a descriptor for the program, or -1; `inside`: the process
 * was made inside its control group. */
__attribute__((noreturn)) static void become(char **words, char **environment, long handed, int inside) {
    const char *mark = 0, *group = 0, *folder = 0, *directory = 0, *files = 0, *processes = 0, *memory = 0;
    const char *kept = 0, *killer = 0, *account = 0, *programs[MOST_FILES];
    int session = 0, tells = 0, other = 0, makes = 0, candidates = 0;
    char **first_word = words;
    number uid = 0, gid = 0;
    char work[MOST_PATH];

    for (; *words; words++) {
        const char *value = *words + 1;
        char kind = **words;
        if (kind == '-') break;
        if (kind == 'l') mark = value;
        else if (kind == 's') session = 1;
        else if (kind == 'g') group = value;
        else if (kind == 'f') folder = value;
        else if (kind == 'k') makes = 1;
        else if (kind == 'd') directory = value;
        else if (kind == 'r') kept = value;
        else if (kind == 'n') files = value;
        else if (kind == 'u') processes = value;
        else if (kind == 'm') memory = value;
        else if (kind == 'o') killer = value;
        else if (kind == 't') tells = 1;
        else if (kind == 'a') account = value;
        else if (kind == 'x') other = 1;
        else if (kind == 'e' && candidates < MOST_FILES) programs[candidates++] = value;
        else if (kind != 'e' && !noted(kind, *words + 1)) done("launcher", -EINVAL);
    }
    if (!*words || !folder) done("launcher", -EINVAL);
    if (inside) group = 0;
    char **arguments = words + 1;
    handed = moved(handed);
    pipe_end = moved(pipe_end);
    if (account) {
        uid = numeral(&account);
        if (*account) account++;
        gid = numeral(&account);
        while (*account && groups_seen < MOST_GROUPS) {
            account++;
            if (*account >= '0' && *account <= '9') groups[groups_seen++] = (unsigned)numeral(&account);
        }
    }

    if (makes) done("folder", made_folder(folder));
    if (group) done("group", grouped(group));
    if (box.folder) make_container(first_word, mark);
    if (mark) limited(RLIMIT_LOCKS, mark); /* without root, a lower mark stays */
    if (session) done("output", call(NR_setsid, 0, 0, 0, 0, 0));
    done("output", output(folder, "/stdout", 1, account != 0, uid, gid));
    done("output", output(folder, "/stderr", 2, account != 0, uid, gid));
    if (!directory) {
        done("directory", joined(work, folder, "/work"));
        if (!kept || !owned(kept, work)) {
            long made = call(NR_mkdirat, AT_FDCWD, (long)work, 0755, 0, 0);
            if (made != -EEXIST) done("directory", made);
            if (!made && account) done("directory", call(NR_fchownat, AT_FDCWD, (long)work, (long)uid, (long)gid, 0));
        }
    }
    long open_folder = account ? done("directory", opened(folder, "", O_DIRECTORY)) : -1;
    if (box.folder) enter_container();
    else if (other) hide_processes();
    if (group) done("group", written(group, "/cgroup.procs", "0"));
    /* The account of the task may be unable to enter this directory by path. */
    if (!directory) done("directory", call(NR_chdir, (long)work, 0, 0, 0, 0));
    if (files) done("limit", limited(RLIMIT_NOFILE, files));
    if (processes) done("limit", limited(RLIMIT_NPROC, processes));
    if (memory) done("limit", limited(RLIMIT_DATA, memory));
    if (killer) written("/proc/self", "/oom_score_adj", killer);
    unblock_signals();
    if (tells) done("limit", call(NR_dup3, pipe_end, 3, 0, 0, 0));
    if (handed >= 0) done("limit", call(NR_dup3, handed, 4, 0, 0, 0));
    if (account) {
        /* Last, after all files are made: other processes of this account could put links there. */
        done("account", call(NR_fchmod, open_folder, 0700, 0, 0, 0));
        done("account", call(NR_fchown, open_folder, (long)uid, (long)gid, 0, 0));
        if (other) {
            long ring = call(NR_keyctl, JOIN_SESSION_KEYRING, 0, 0, 0, 0);
            if (ring != -ENOSYS) done("account", ring); /* a kernel without keys has none to hide */
            if (box.accounts && box.groups) enter_user_namespace();
        }
        if (box.folder) bound_capabilities();
        done("account", call(NR_setgroups, (long)groups_seen, (long)groups, 0, 0, 0));
        done("account", call(NR_setresgid, (long)gid, (long)gid, (long)gid, 0, 0));
        done("account", call(NR_setresuid, (long)uid, (long)uid, (long)uid, 0, 0));
        if (other) done("account", call(NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    } else if (box.folder) {
        bound_capabilities();
    }
    if (box.folder) confine();
    if (directory) done("directory", call(NR_chdir, (long)directory, 0, 0, 0, 0));

    /* The most specific error counts, as in programs.py. */
    long worst = -ENOENT;
    for (int i = 0; i < candidates; i++) {
        long result = call(NR_execve, (long)programs[i], (long)arguments, (long)environment, 0, 0);
        if (result == -ENOENT || result == -ENOTDIR) continue;
        worst = result;
        if (worst != -EACCES) break;
    }
    done("exec", worst);
    __builtin_unreachable();
}

/* --- requests --- */

struct rights { /* struct cmsghdr with descriptors */
    number length;
    int level, type;
    int files[MOST_FILES_SENT + 1];
};

/* The n-th number of 32 bits at `from`, which need not be aligned. */
static unsigned head(const char *from, int n) {
    const unsigned char *at = (const unsigned char *)from + 4 * n;
    return at[0] | (unsigned)at[1] << 8 | (unsigned)at[2] << 16 | (unsigned)at[3] << 24;
}

/* Read a whole message; return its length, or -1 at the end. */
static long received(long socket, struct rights *rights) {
    number have = 0, whole = HEAD;
    while (have < whole) {
        struct { char *base; number length; } part = {requests + have, whole - have};
        struct message message = {0, 0, (void *)&part, 1, have ? 0 : rights, have ? 0 : sizeof *rights, 0};
        long n = call(NR_recvmsg, socket, (long)&message, MSG_CMSG_CLOEXEC, 0, 0);
        if (n == -EINTR) continue;
        if (n <= 0) return -1;
        have += (number)n;
        if (have == HEAD) whole = HEAD + head(requests, 0);
        if (whole > MOST_BYTES) return -1;
    }
    return (long)whole;
}

/* The descriptors of one message, and the socket that it came from. */
static struct { int *files; unsigned count; long socket; } sent;

/* Close what belongs to other requests and to the launcher. A process that makes a container does not exec, and lives as
 * long as the engine: other starts would seem unfinished as long as it held their descriptors. */
static void keep_only(const int *files, unsigned count) {
    for (unsigned i = 0; i < sent.count; i++)
        if (sent.files + i < files || sent.files + i >= files + count) call(NR_close, sent.files[i], 0, 0, 0, 0);
    call(NR_close, sent.socket, 0, 0, 0, 0);
}

/* In the child: take a request apart, and carry it out. */
__attribute__((noreturn)) static void obey(char *at, int *files, int inside) {
    unsigned words = head(at, 1), variables = head(at, 2), has_file = head(at, 3) > 1;
    if (words + variables + 2 > MOST_WORDS) done("launcher", -EINVAL);
    at += REQUEST_HEAD;
    for (unsigned i = 0; i < words + variables; i++) {
        texts[i + (i >= words)] = at;
        at += length(at) + 1;
    }
    texts[words] = texts[words + 1 + variables] = 0;
    pipe_end = files[0];
    for (char **word = texts; *word && **word != '-'; word++)
        if (**word == 'B') keep_only(files, 1 + has_file);
    become(texts, texts + words + 1, has_file ? files[1] : -1, inside);
}

/* Return the control group that a request orders, or 0. */
static const char *group_in(char *at) {
    unsigned words = head(at, 1);
    for (at += REQUEST_HEAD; words-- && *at != '-'; at += length(at) + 1)
        if (*at == 'g') return at + 1;
    return 0;
}

/* Fork inside the control group of a request. To enter it later, a process waits until all processors have noticed, and
 * all forks and ends on the machine wait for it. Return the pid, or an error if it cannot be done in this way; -EAGAIN
 * if not this time. */
static long forked_inside(char *at) {
    const char *group = enters ? group_in(at) : 0;
    if (!group || grouped(group)) return -EAGAIN;
    long place = opened(group, "", O_PATH | O_DIRECTORY);
    if (place < 0) return -EAGAIN;
    /* struct clone_args; with CLONE_PARENT the end is told by the signal that tells the end of the launcher. */
    number arguments[11] = {CLONE_PARENT | CLONE_INTO_CGROUP, 0, 0, 0, 0, 0, 0, 0, 0, 0, (number)place};
    long pid = call(NR_clone3, (long)arguments, sizeof arguments, 0, 0, 0);
    call(NR_close, place, 0, 0, 0, 0);
    return pid;
}

/* Return whether an error means that it can never be done here: older kernels, filters of system calls, and groups of the
 * first version. Others are of one start, such as a group that was removed, or a lack of memory. */
static int never(long error) {
    return error == -ENOSYS || error == -EINVAL || error == -E2BIG || error == -EBADF || error == -EPERM ||
           error == -EOPNOTSUPP;
}

/* Return the clock ticks since the machine was started. */
static number ticks(void) {
    number now[2] = {0, 0};
    call(NR_clock_gettime, CLOCK_BOOTTIME, (long)now, 0, 0, 0);
    return (now[0] * SECOND + now[1]) / TICK;
}

__attribute__((noreturn)) static void serve(long socket) {
    static struct rights rights;
    static struct { long pid; number began; } answers[MOST_FILES_SENT];
    prepare_signals();
    for (;;) {
        long whole = received(socket, &rights);
        unsigned count = head(requests, 1), files = 0;
        if (whole < 0 || count > MOST_FILES_SENT) call(NR_exit_group, whole >= 0, 0, 0, 0, 0);
        char *at = requests + HEAD;
        sent.files = rights.files;
        sent.socket = socket;
        sent.count = 0;
        for (unsigned i = 0; i < count && at + REQUEST_HEAD <= requests + whole; i++) {
            sent.count += head(at, 3);
            at += REQUEST_HEAD + head(at, 0);
        }
        at = requests + HEAD;
        for (unsigned i = 0; i < count && at + REQUEST_HEAD <= requests + whole; i++) {
            number before = ticks();
            long pid = forked_inside(at);
            if (!pid) obey(at, rights.files + files, 1);
            if (pid < 0) {
                long why = pid;
                pid = call(NR_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
                if (!pid) obey(at, rights.files + files, 0);
                if (pid > 0 && never(why)) enters = 0;
            }
            answers[i].pid = pid;
            answers[i].began = ticks() == before ? before : 0;
            files += head(at, 3);
            at += REQUEST_HEAD + head(at, 0);
        }
        for (unsigned i = 0; i < sent.count; i++) call(NR_close, rights.files[i], 0, 0, 0, 0);
        call(NR_write, socket, (long)answers, (long)(count * sizeof *answers), 0, 0);
    }
}

__attribute__((noreturn, used)) void start(number *stack) {
    const char *socket = stack[0] == 2 ? ((char **)(stack + 1))[1] : "";
    if (!*socket) done("launcher", -EINVAL);
    serve(moved((long)numeral(&socket)));
}
