/* How far the GPUs of the stand-in are from each other; in files, as all of its state.
 *
 *   gpus/<index>/level.<other>  what is between the two, as NVML counts it; 30 if not set
 *   gpus/<index>/nvlink         by link the GPU at its other end, -1 for one that is down
 */

static unsigned topology_level(int index, int other)
{
    enum { INTERNAL = 0, HOSTBRIDGE = 30 };
    char name[64];
    snprintf(name, sizeof name, "level.%d", other);
    if (index == other)
        return INTERNAL;
    return exists(index, name) ? (unsigned)gpu_number(index, name) : HOSTBRIDGE;
}

static int nvlink_end(int index, unsigned link, int *other)
{
    char text[LINE], *next = text;
    if (!gpu_text(index, "nvlink", text, sizeof text))
        return 0;
    for (unsigned i = 0;; i++) {
        char *end;
        long number = strtol(next, &end, 10);
        if (end == next)
            return 0;
        if (i == link) {
            *other = (int)number;
            return 1;
        }
        next = end;
    }
}
