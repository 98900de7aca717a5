/* What the stand-in reads: the files under $FAKE_NVML_DIR, and /proc for who is alive.
 *
 *   gpus/<index>/          name, uuid, total, reserved, elsewhere, utilisation, ...
 *   gpus/<index>/lock      flock: shared while reading holders, exclusive while allocating
 *   gpus/<index>/compute/  one file per process: "<start time> <bytes> <peak bytes>"
 *   gpus/<index>/graphics/ the same for processes that draw
 *   switches/              faults; "init", "memory" and "processes" (all GPUs) or "memory.0"
 *                          (that GPU) hold "<times left, -1 for ever> <code>"
 *
 * Names that start with a dot are files being written.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { MAX_HOLDERS = 4096, LINE = 256 };

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    GPU_IS_LOST = 15,
    VERSION_MISMATCH = 25,
    UNKNOWN = 999,
};

typedef int result;
typedef unsigned long long bytes;
typedef struct { unsigned pid; bytes used; unsigned instance, compute_instance; } process;

static int root_path(char *out, const char *tail)
{
    const char *root = getenv("FAKE_NVML_DIR");
    return root && *root && snprintf(out, PATH_MAX, "%s/%s", root, tail) < PATH_MAX;
}

static int gpu_path(char *out, int index, const char *tail)
{
    char under[NAME_MAX];
    snprintf(under, sizeof under, "gpus/%d/%s", index, tail);
    return root_path(out, under);
}

static int read_line(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t length = read(fd, out, size - 1);
    close(fd);
    if (length < 0)
        return 0;
    out[length] = '\0';
    return 1;
}

static int gpu_text(int index, const char *name, char *out, size_t size)
{
    char path[PATH_MAX];
    if (!gpu_path(path, index, name) || !read_line(path, out, size))
        return 0;
    out[strcspn(out, "\n")] = '\0';
    return 1;
}

static bytes gpu_number(int index, const char *name)
{
    char text[LINE];
    return gpu_text(index, name, text, sizeof text) ? strtoull(text, NULL, 10) : 0;
}

static int exists(int index, const char *name)
{
    char path[PATH_MAX];
    return gpu_path(path, index, name) && access(path, F_OK) == 0;
}

static int switched(const char *name)
{
    char tail[LINE], path[PATH_MAX];
    snprintf(tail, sizeof tail, "switches/%s", name);
    return root_path(path, tail) && access(path, F_OK) == 0;
}

static int locked(const char *path, int how)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    while (flock(fd, how) < 0 && errno == EINTR)
        ;
    return fd;
}

static void unlock(int fd)
{
    if (fd < 0)
        return;
    /* Not left to close(): a child forked meanwhile would keep the lock. */
    flock(fd, LOCK_UN);
    close(fd);
}

static result use_up(const char *path)
{
    char text[LINE], next[PATH_MAX];
    int left, code;
    if (!read_line(path, text, sizeof text) || sscanf(text, "%d %d", &left, &code) != 2)
        return SUCCESS;
    if (left < 0)
        return code;
    if (left <= 1) {
        unlink(path);
        return code;
    }
    FILE *file = root_path(next, "switches/.next") ? fopen(next, "we") : NULL;
    if (!file)
        return UNKNOWN;
    fprintf(file, "%d %d\n", left - 1, code);
    fclose(file);
    return rename(next, path) ? UNKNOWN : code;
}

static result fault(const char *name)
{
    char tail[LINE], path[PATH_MAX], lock[PATH_MAX];
    snprintf(tail, sizeof tail, "switches/%s", name);
    if (!root_path(path, tail) || access(path, F_OK) || !root_path(lock, "switches/.lock"))
        return SUCCESS;
    int held = locked(lock, LOCK_EX);
    result code = use_up(path);
    unlock(held);
    return code;
}

static result device_fault(const char *name, int index)
{
    char own[LINE];
    snprintf(own, sizeof own, "%s.%d", name, index);
    result code = fault(own);
    return code ? code : fault(name);
}

/* Also false for a zombie, and for a new process under the old pid. */
static int alive(unsigned pid, bytes started)
{
    char path[64], text[1024], state;
    bytes start;
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    if (!read_line(path, text, sizeof text))
        return 0;
    const char *rest = strrchr(text, ')'); /* the name before it may hold anything */
    if (!rest ||
        sscanf(rest + 1,
               " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"
               " %llu", &state, &start) != 2)
        return 0;
    return !strchr("ZXx", state) && start == started;
}

static unsigned holders(int index, const char *kind, process *out)
{
    char path[PATH_MAX], file[PATH_MAX], text[LINE];
    unsigned count = 0;
    DIR *directory = gpu_path(path, index, kind) ? opendir(path) : NULL;
    if (!directory)
        return 0;
    for (struct dirent *entry; count < MAX_HOLDERS && (entry = readdir(directory));) {
        bytes started, used;
        unsigned pid = (unsigned)strtoul(entry->d_name, NULL, 10);
        if (!pid || snprintf(file, sizeof file, "%s/%s", path, entry->d_name) >= PATH_MAX ||
            !read_line(file, text, sizeof text) ||
            sscanf(text, "%llu %llu", &started, &used) != 2 || !used || !alive(pid, started))
            continue;
        out[count++] = (process){pid, used, UINT_MAX, UINT_MAX};
    }
    closedir(directory);
    return count;
}

static unsigned holders_at_rest(int index, const char *kind, process *out)
{
    char lock[PATH_MAX];
    int held = gpu_path(lock, index, "lock") ? locked(lock, LOCK_SH) : -1;
    unsigned count = holders(index, kind, out);
    unlock(held);
    return count;
}

static bytes used_bytes(int index)
{
    process found[MAX_HOLDERS];
    char lock[PATH_MAX];
    int held = gpu_path(lock, index, "lock") ? locked(lock, LOCK_SH) : -1;
    bytes used = gpu_number(index, "elsewhere");
    for (unsigned i = holders(index, "compute", found); i-- > 0;)
        used += found[i].used;
    for (unsigned i = holders(index, "graphics", found); i-- > 0;)
        used += found[i].used;
    unlock(held);
    return used;
}
