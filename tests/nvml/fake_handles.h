/* What stands between a caller of the stand-in and its files: handles, and results given. */
#include "fake_state.h"

#include <stdatomic.h>

enum { MAX_GPUS = 64 };

typedef struct { char name; } *gpu;

/* A handle is an address in here, so that a stray pointer is told from a GPU. */
static char handles[MAX_GPUS];
static atomic_int inits;

static result give_text(const char *text, char *out, unsigned size)
{
    if (!out)
        return INVALID_ARGUMENT;
    if (strlen(text) >= size)
        return INSUFFICIENT_SIZE;
    strcpy(out, text);
    return SUCCESS;
}

static result give(unsigned value, unsigned *out)
{
    if (!out)
        return INVALID_ARGUMENT;
    *out = value;
    return SUCCESS;
}

static int gpu_count(void)
{
    int count = 0;
    while (count < MAX_GPUS && exists(count, "uuid"))
        count++;
    return count;
}

static result handle(int index, gpu *out)
{
    if (!out || index < 0 || index >= gpu_count())
        return INVALID_ARGUMENT;
    if (exists(index, "lost"))
        return GPU_IS_LOST;
    *out = (gpu)&handles[index];
    return SUCCESS;
}

/* Every call on a GPU starts here. */
static result enter(gpu device, int *index)
{
    char *at = (char *)device;
    if (!atomic_load(&inits))
        return UNINITIALIZED;
    if (at < handles || at >= handles + MAX_GPUS)
        return INVALID_ARGUMENT;
    *index = (int)(at - handles);
    if (exists(*index, "lost"))
        return GPU_IS_LOST;
    return exists(*index, "uuid") ? SUCCESS : INVALID_ARGUMENT;
}
