/* Containers: the part of the launcher that makes one and enters it. container.py does the same where it forks.
 *
 * A process that carries out the orders of a container first makes control groups, and starts the engine with private
 * mounts. Once the first process of the container runs, it forks the process that becomes the program. It tells the
 * pid of that one as "pid N\n", and ends. The orders, which are letters with values like the others:
 *
 *   P4711         the supervisor: without it as parent, end at once
 *   G/PATH        make this control group
 *   W/PATH=TEXT   write a limit; v: where the file exists, w: if it can be written
 *   M/PATH        the file by which a process enters a control group of the attempt
 *   R/PATH        the same of the group that this process has: see ReadyForMoves in cgroups.py
 *   B/PATH        the folder of the container: log, first
 *   O/PATH        the folder where the engine finds the root file system
 *   T/PATH        a folder that is empty for the engine
 *   E/PATH        the engine; E…: a word for it
 *   U0 0 42…      map of accounts of a new user namespace; V…: of groups; without them there is none
 *   K1234         mask of the capabilities that the program keeps
 *   S2000…        filter of system calls, in hexadecimal digits
 */

enum { MOST_ENGINE_WORDS = 32, MOST_PROCS_FILES = 32, MOST_FILTER = 4096, CAPABILITIES = 64 };
enum { MOST_LOG = 1 << 16, MOST_SAID = 500 }; /* bytes of the engine's log that are read, and told: the last ones */
/* Thousandths of a second between two moves that keep the kernel ready, and their number in 30 s. */
enum { GRACE = 3, PATIENCE = 10000 };
enum { PR_SET_PDEATHSIG = 1, PR_SET_DUMPABLE = 4, PR_SET_SECCOMP = 22 };
enum { PR_CAPBSET_READ = 23, PR_CAPBSET_DROP = 24, PR_CAP_AMBIENT = 47 };
enum { SIGKILL = 9, SECCOMP_MODE_FILTER = 2, AMBIENT_CLEAR = 4, CAPABILITY_VERSION = 0x20080522, POLLIN = 1 };
enum { AF_UNIX = 1, SOCK_STREAM = 1, SOL_SOCKET = 1, SO_PASSCRED = 16, SCM_CREDENTIALS = 2 };
enum { CLONE_NEWUTS = 0x4000000, CLONE_NEWIPC = 0x8000000, CLONE_NEWUSER = 0x10000000, CLONE_NEWPID = 0x20000000 };
enum { MS_RDONLY = 1, MS_REMOUNT = 32, MS_BIND = 4096, MS_PRIVATE = 1 << 18, O_TRUNC = 01000, O_RDWR = 02 };

/* The orders of one container; without a `folder` there is none. `first`: the pid of its first process, once known. */
static struct {
    const char *folder, *root, *supervisor, *ready, *hidden, *accounts, *groups, *kept, *filter;
    const char *procs[MOST_PROCS_FILES];
    char *engine[MOST_ENGINE_WORDS + 1];
    int files, words;
    number first;
} box;
static char *no_environment[1];

/* Note an order; return 0 if it is none for a container. */
static int noted(char kind, char *value) {
    if (kind == 'B') box.folder = value;
    else if (kind == 'O') box.root = value;
    else if (kind == 'P') box.supervisor = value;
    else if (kind == 'R') box.ready = value;
    else if (kind == 'T') box.hidden = value;
    else if (kind == 'U') box.accounts = value;
    else if (kind == 'V') box.groups = value;
    else if (kind == 'K') box.kept = value;
    else if (kind == 'S') box.filter = value;
    else if (kind == 'M' && box.files < MOST_PROCS_FILES) box.procs[box.files++] = value;
    else if (kind == 'E' && box.words < MOST_ENGINE_WORDS) box.engine[box.words++] = value;
    else return kind == 'G' || kind == 'W' || kind == 'v' || kind == 'w'; /* these are carried out in their order */
    return 1;
}

/* --- files --- */

/* Read up to `most` bytes of a file, and a zero byte; return their number, or an error. */
static long content(const char *folder, const char *name, char *to, long most) {
    long file = opened(folder, name, 0), have = 0, n = 0;
    if (file < 0) return file;
    while (have < most && (n = call(NR_read, file, (long)(to + have), most - have, 0, 0)) > 0) have += n;
    call(NR_close, file, 0, 0, 0, 0);
    to[have] = 0;
    return n < 0 ? n : have;
}

/* Write the path of a file in /proc about a process to `to`. */
static void about(char *to, number pid, const char *name) {
    const char *start = "/proc/";
    while (*start) *to++ = *start++;
    to = decimal(to, pid);
    while (*name) *to++ = *name++;
    *to = 0;
}

/* Carry out "PATH=TEXT" of a limit. */
static long limit_written(char *value) {
    char *text = value;
    while (*text && *text != '=') text++;
    if (!*text) return -EINVAL;
    *text = 0;
    long result = written("", value, text + 1);
    *text = '=';
    return result;
}

static long moved_to(const char *file, number pid) {
    char text[24];
    *decimal(text, pid) = 0;
    return written("", file, text);
}

/* --- making it --- */

static void make_groups(char **words) {
    for (; *words && **words != '-'; words++) {
        char kind = **words;
        long result = 0;
        if (kind == 'G') result = grouped(*words + 1);
        else if (kind == 'W' || kind == 'v' || kind == 'w') result = limit_written(*words + 1);
        if (result < 0 && kind != 'w' && !(kind == 'v' && result == -ENOENT)) done("group", result);
    }
}

/* End with an error number that the parent reads in the status. */
static long engine_done(long result) {
    if (result < 0) call(NR_exit_group, -result & 255, 0, 0, 0, 0);
    return result;
}

static long mounted(const char *source, const char *target, const char *kind, long flags) {
    return call(NR_mount, (long)source, (long)target, (long)kind, flags, 0);
}

/* In a child: become the engine, with private mounts and the root of the node, which is read-only before it sees it.
 * The first process says on the descriptor `says` that it runs. */
__attribute__((noreturn)) static void become_engine(long says, long maker) {
    call(NR_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (call(NR_getppid, 0, 0, 0, 0, 0) != maker) engine_done(-ESRCH); /* it has died before */
    long null = engine_done(opened("/dev/null", "", O_RDWR));
    long log = engine_done(opened(box.folder, "/log", O_WRONLY | O_CREAT | O_TRUNC));
    engine_done(call(NR_dup3, null, 0, 0, 0, 0));
    engine_done(call(NR_dup3, says, 1, 0, 0, 0));
    engine_done(call(NR_dup3, log, 2, 0, 0, 0));
    engine_done(call(NR_unshare, CLONE_NEWNS, 0, 0, 0, 0));
    engine_done(mounted("none", "/", 0, MS_REC | MS_PRIVATE));
    engine_done(mounted("/", box.root, 0, MS_BIND));
    engine_done(mounted("none", box.root, 0, MS_BIND | MS_REMOUNT | MS_RDONLY));
    if (box.hidden) engine_done(mounted("tmpfs", box.hidden, "tmpfs", 0));
    engine_done(call(NR_execve, (long)box.engine[0], (long)box.engine, (long)no_environment, 0, 0));
    __builtin_unreachable();
}

/* Report that there is no container, with the last that the engine has said, and end. */
static void not_made(long result) {
    static char log[MOST_LOG + 1];
    const char *start = "box -1 ";
    char text[MOST_SAID + 16], *to = log, *said;
    if (content(box.folder, "/log", log, MOST_LOG) <= 0) done("box", result);
    for (const char *from = log; *from; from++)
        if ((unsigned char)*from > ' ') *to++ = *from;
        else if (to > log && to[-1] != ' ') *to++ = ' ';
    if (to > log && to[-1] == ' ') to--;
    if (to == log) done("box", result);
    *to = 0;
    said = to - log > MOST_SAID ? to - MOST_SAID : log;
    while (((unsigned char)*said & 0xc0) == 0x80) said++; /* no part of a character of several bytes */
    joined(text, start, said);
    call(NR_write, pipe_end, (long)text, (long)length(text), 0, 0);
    call(NR_exit_group, 127, 0, 0, 0, 0);
}

/* Wait for the word of the first process on a socket, with which the kernel tells its pid. Return 0 if none came. */
static number speaker(long socket) {
    char byte;
    struct { char *base; number length; } part = {&byte, 1};
    struct { number length; int level, type, pid, uid, gid, space; } told = {0, 0, 0, 0, 0, 0, 0}; /* cmsghdr, ucred */
    struct message message = {0, 0, (void *)&part, 1, &told, sizeof told, 0};
    if (call(NR_recvmsg, socket, (long)&message, MSG_CMSG_CLOEXEC, 0, 0) != 1) return 0;
    return told.type == SCM_CREDENTIALS && told.pid > 0 ? (number)told.pid : 0;
}

/* Read the start of a process, in ticks, from its file `stat`; return 0 if it is gone or dead. */
static number start_of(number pid) {
    char path[64], text[1024];
    about(path, pid, "/stat");
    if (content(path, "", text, sizeof text - 1) <= 0) return 0;
    const char *at = text;
    for (const char *p = text; *p; p++)
        if (*p == ')') at = p;
    if (*at != ')' || at[2] == 'Z' || at[2] == 'X') return 0;
    for (int spaces = 0; *at && spaces < 20; at++) spaces += *at == ' '; /* it is the 22nd field */
    return numeral(&at);
}

/* Note the first process in a file, by pid and start. */
static void note_first(void) {
    char text[64], path[MOST_PATH];
    number ticks = start_of(box.first);
    if (!ticks) not_made(-ESRCH);
    char *to = text;
    *to++ = '[';
    to = decimal(to, box.first);
    *to++ = ',';
    to = decimal(to, ticks);
    *to++ = ']';
    *to = 0;
    done("box", joined(path, box.folder, "/first"));
    long file = done("box", opened(path, "", O_WRONLY | O_CREAT | O_TRUNC));
    done("box", call(NR_write, file, (long)text, to - text, 0, 0));
    call(NR_close, file, 0, 0, 0, 0);
}

/* Wait until the first process runs, and end the engine, which would stay as its parent. The kernel is kept ready to
 * move processes meanwhile. */
static void wait_for_first(long engine, long said) {
    int status = 0;
    long watched = done("box", call(NR_pidfd_open, engine, 0, 0, 0, 0));
    struct { int file; short events, seen; } looks[2] = {{(int)said, POLLIN, 0}, {(int)watched, POLLIN, 0}};
    for (long n = 0; n < PATIENCE; n++) {
        number time[2] = {0, GRACE * 1000000};
        if (box.ready) written("", box.ready, "0");
        if (call(NR_ppoll, (long)looks, 2, (long)time, 0, 0) > 0) break;
    }
    if (looks[0].seen & POLLIN) box.first = speaker(said);
    /* At once: if the supervisor dies now, and this process with it, the next one must not take that for the program. */
    if (box.first) note_first();
    if (box.first || !looks[1].seen) call(NR_kill, engine, SIGKILL, 0, 0, 0);
    call(NR_wait4, engine, (long)&status, 0, 0, 0);
    if (!box.first) not_made(status & 127 ? -ETIMEDOUT : -(status >> 8 ? status >> 8 : ESRCH));
    call(NR_close, watched, 0, 0, 0, 0);
}

static long space_entered(const char *name, long kind) {
    char path[64];
    about(path, box.first, name);
    long file = opened(path, "", 0);
    if (file < 0) return file;
    long result = call(NR_setns, file, kind, 0, 0, 0);
    call(NR_close, file, 0, 0, 0, 0);
    return result;
}

/* Make the container. Return in a child, whose processes are those of the container; this process ends. */
static void make_container(char **words, const char *mark) {
    int gate[2], yes = 1;
    char text[32] = "pid ", *to = text + 4;
    const char *supervisor = box.supervisor;
    call(NR_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if ((number)call(NR_getppid, 0, 0, 0, 0, 0) != numeral(&supervisor)) call(NR_exit_group, 127, 0, 0, 0, 0);
    unblock_signals();
    make_groups(words);
    done("box", call(NR_socketpair, AF_UNIX, SOCK_STREAM | O_CLOEXEC, 0, (long)gate, 0));
    done("box", call(NR_setsockopt, gate[0], SOL_SOCKET, SO_PASSCRED, (long)&yes, sizeof yes));
    long maker = call(NR_getpid, 0, 0, 0, 0, 0);
    long engine = done("box", call(NR_clone, SIGCHLD, 0, 0, 0, 0));
    if (!engine) become_engine(gate[1], maker);
    /* Not earlier: the first process leads a session, so with the mark its end would be taken for the program's. */
    if (mark) limited(RLIMIT_LOCKS, mark);
    call(NR_close, gate[1], 0, 0, 0, 0);
    wait_for_first(engine, gate[0]);
    call(NR_close, gate[0], 0, 0, 0, 0);
    for (int i = 0; i < box.files; i++) done("box", moved_to(box.procs[i], box.first));
    done("box", space_entered("/ns/pid", CLONE_NEWPID));
    done("box", call(NR_pipe2, (long)gate, O_CLOEXEC, 0, 0, 0));
    long program = done("box", call(NR_clone, SIGCHLD, 0, 0, 0, 0));
    if (!program) {
        call(NR_close, gate[1], 0, 0, 0, 0);
        call(NR_read, gate[0], (long)text, 1, 0, 0); /* until the parent has ended */
        call(NR_close, gate[0], 0, 0, 0, 0);
        return;
    }
    to = decimal(to, (number)program);
    *to++ = '\n';
    call(NR_write, pipe_end, (long)text, to - text, 0, 0);
    call(NR_exit_group, 127, 0, 0, 0, 0);
}

/* --- entering it --- */

/* Enter control groups and namespaces; from then on paths are those of the container. The entries of this process in
 * /proc are closed to the tasks that run there. */
static void enter_container(void) {
    static const char *const names[] = {"/ns/ipc", "/ns/uts", "/ns/mnt"};
    static const long kinds[] = {CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWNS};
    done("output", call(NR_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0));
    for (int i = 0; i < box.files; i++) done("output", written("", box.procs[i], "0"));
    for (int i = 0; i < 3; i++) done("output", space_entered(names[i], kinds[i]));
}

static void lift_limits(void) {
    static const long shared[] = {6, 8, 11, 12}; /* NPROC, MEMLOCK, SIGPENDING, MSGQUEUE: see user_namespace.py */
    for (int i = 0; i < 4; i++) {
        number old[2], none[2] = {~0ul, ~0ul};
        call(NR_prlimit64, 0, shared[i], 0, (long)old, 0);
        old[0] = old[1];
        if (call(NR_prlimit64, 0, shared[i], (long)none, 0, 0) < 0) call(NR_prlimit64, 0, shared[i], (long)old, 0, 0);
    }
}

/* Enter a new user namespace, made by a child, since only a process outside may write its maps. Where it cannot be
 * made, nothing changes; the capabilities are dropped anyway. */
static void enter_user_namespace(void) {
    int made[2], over[2];
    char path[64], byte = 'x';
    if (call(NR_pipe2, (long)made, O_CLOEXEC, 0, 0, 0) < 0) return;
    if (call(NR_pipe2, (long)over, O_CLOEXEC, 0, 0, 0) < 0) return;
    long child = call(NR_clone, SIGCHLD, 0, 0, 0, 0);
    if (!child) {
        call(NR_close, over[1], 0, 0, 0, 0);
        lift_limits();
        if (call(NR_unshare, CLONE_NEWUSER, 0, 0, 0, 0) >= 0) {
            call(NR_write, made[1], (long)&byte, 1, 0, 0);
            call(NR_read, over[0], (long)&byte, 1, 0, 0);
        }
        call(NR_exit_group, 0, 0, 0, 0, 0);
    }
    call(NR_close, made[1], 0, 0, 0, 0);
    if (child > 0 && call(NR_read, made[0], (long)&byte, 1, 0, 0) == 1) {
        about(path, (number)child, "/uid_map");
        long result = written("", path, box.accounts);
        about(path, (number)child, "/gid_map");
        if (result >= 0) result = written("", path, box.groups);
        about(path, (number)child, "/ns/user");
        long space = result < 0 ? result : opened(path, "", 0);
        if (space >= 0) call(NR_setns, space, CLONE_NEWUSER, 0, 0, 0);
        if (space >= 0) call(NR_close, space, 0, 0, 0, 0);
    }
    if (child > 0) {
        call(NR_kill, child, SIGKILL, 0, 0, 0);
        call(NR_wait4, child, 0, 0, 0, 0);
    }
    call(NR_close, made[0], 0, 0, 0, 0);
    call(NR_close, over[0], 0, 0, 0, 0);
    call(NR_close, over[1], 0, 0, 0, 0);
}

/* Drop all capabilities that the program does not keep, from the bounding set. */
static void bound_capabilities(void) {
    const char *text = box.kept;
    number kept = numeral(&text);
    call(NR_prctl, PR_CAP_AMBIENT, AMBIENT_CLEAR, 0, 0, 0); /* unknown to old kernels, which have no ambient ones */
    for (long n = 0; n < CAPABILITIES; n++)
        if (!(kept >> n & 1) && call(NR_prctl, PR_CAPBSET_READ, n, 0, 0, 0) == 1)
            done("account", call(NR_prctl, PR_CAPBSET_DROP, n, 0, 0, 0));
}

/* Keep these capabilities, none of them inherited, and gain no others; then filter the system calls. */
static void confine(void) {
    static unsigned char code[MOST_FILTER * 8];
    const char *text = box.kept, *digits = box.filter;
    number kept = numeral(&text), bytes = 0;
    unsigned header[2] = {CAPABILITY_VERSION, 0};
    unsigned sets[6] = {(unsigned)kept, (unsigned)kept, 0, (unsigned)(kept >> 32), (unsigned)(kept >> 32), 0};
    done("account", call(NR_capset, (long)header, (long)sets, 0, 0, 0));
    done("account", call(NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    for (; digits && *digits && bytes < sizeof code; digits++, bytes++) {
        unsigned value = 0;
        for (int i = 0; i < 2; i++) {
            char digit = digits[i];
            value = value * 16 + (unsigned)(digit >= 'a' ? digit - 'a' + 10 : digit - '0');
        }
        code[bytes] = (unsigned char)value;
        digits++;
    }
    if (digits && *digits) done("account", -E2BIG);
    struct { unsigned short length; void *code; } program = {(unsigned short)(bytes / 8), code};
    if (bytes) done("account", call(NR_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (long)&program, 0, 0));
}
