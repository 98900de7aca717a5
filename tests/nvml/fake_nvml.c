/* A stand-in for libnvidia-ml.so.1, loaded by nvidia-ml-py through LD_LIBRARY_PATH.
 *
 * It keeps nothing but the count of nvmlInit calls: every answer is read anew from files
 * (fake_state.h), so that any process can change what all others see. A function missing
 * here is what nvidia-ml-py reports as "Function Not Found".
 */
#include "fake_handles.h"
#include "fake_links.h"

#include <time.h>

/* Added to every pid when "shift_pids" is on: what a container sees of its host. */
enum { PID_SHIFT = 1000000 };

typedef struct { bytes total, free, used; } memory_v1;
typedef struct { unsigned version; bytes total, reserved, free, used; } memory_v2;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned version, sensor; int celsius; } temperature_v1;
typedef struct {
    char legacy_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char id[32];
} pci_info;
typedef struct {
    unsigned gpu_percent, memory_percent;
    bytes peak, running_ms, start_us;
    unsigned running, reserved[5];
} accounting;

static const unsigned MEMORY_V2 = sizeof(memory_v2) | 2u << 24;
static const unsigned TEMPERATURE_V1 = sizeof(temperature_v1) | 1u << 24;
static const bytes NOT_AVAILABLE = ~0ULL;

static result initialise(void)
{
    char path[PATH_MAX], text[LINE];
    if (!root_path(path, "gpus") || access(path, F_OK))
        return DRIVER_NOT_LOADED;
    if (root_path(path, "switches/init_delay_ms") && read_line(path, text, sizeof text)) {
        long ms = atol(text);
        struct timespec wait = {ms / 1000, ms % 1000 * 1000000};
        while (nanosleep(&wait, &wait) < 0 && errno == EINTR)
            ;
    }
    result code = fault("init");
    if (code == SUCCESS)
        atomic_fetch_add(&inits, 1);
    return code;
}

result nvmlInit_v2(void) { return initialise(); }
result nvmlInitWithFlags(unsigned flags) { (void)flags; return initialise(); }

result nvmlShutdown(void)
{
    int now = atomic_load(&inits);
    do {
        if (now == 0)
            return UNINITIALIZED;
    } while (!atomic_compare_exchange_weak(&inits, &now, now - 1));
    return SUCCESS;
}

const char *nvmlErrorString(result code)
{
    switch (code) {
    case SUCCESS: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case GPU_IS_LOST: return "GPU is lost";
    case VERSION_MISMATCH: return "Argument Version Mismatch";
    default: return "Unknown Error";
    }
}

result nvmlSystemGetDriverVersion(char *out, unsigned size)
{
    return atomic_load(&inits) ? give_text("570.00", out, size) : UNINITIALIZED;
}

result nvmlSystemGetNVMLVersion(char *out, unsigned size)
{
    return give_text("12.570.00", out, size);
}

result nvmlSystemGetCudaDriverVersion(unsigned *out) { return give(12080, out); }
result nvmlSystemGetCudaDriverVersion_v2(unsigned *out) { return give(12080, out); }

result nvmlDeviceGetCount_v2(unsigned *out)
{
    return atomic_load(&inits) ? give((unsigned)gpu_count(), out) : UNINITIALIZED;
}

result nvmlDeviceGetHandleByIndex_v2(unsigned index, gpu *out)
{
    if (!atomic_load(&inits))
        return UNINITIALIZED;
    return handle(index < MAX_GPUS ? (int)index : -1, out);
}

result nvmlDeviceGetHandleByUUID(const char *uuid, gpu *out)
{
    char own[LINE];
    if (!atomic_load(&inits))
        return UNINITIALIZED;
    if (!uuid)
        return INVALID_ARGUMENT;
    for (int i = 0, count = gpu_count(); i < count; i++)
        if (gpu_text(i, "uuid", own, sizeof own) && !strcmp(own, uuid))
            return handle(i, out);
    return NOT_FOUND;
}

static result fact(gpu device, const char *name, unsigned *out)
{
    int i;
    result code = enter(device, &i);
    return code ? code : give((unsigned)gpu_number(i, name), out);
}

static result text_fact(gpu device, const char *name, char *out, unsigned size)
{
    char text[LINE];
    int i;
    result code = enter(device, &i);
    if (code)
        return code;
    return gpu_text(i, name, text, sizeof text) ? give_text(text, out, size) : UNKNOWN;
}

static result own_index(gpu device, unsigned *out)
{
    int i;
    result code = enter(device, &i);
    return code ? code : give((unsigned)i, out);
}

#define NUMBER(function, name) \
    result function(gpu device, unsigned *out) { return fact(device, name, out); }
#define TEXT(function, name) \
    result function(gpu device, char *out, unsigned size) \
    { \
        return text_fact(device, name, out, size); \
    }

TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
NUMBER(nvmlDeviceGetDisplayActive, "display")
NUMBER(nvmlDeviceGetDisplayMode, "display")
NUMBER(nvmlDeviceGetComputeMode, "compute_mode")
NUMBER(nvmlDeviceGetPersistenceMode, "persistence")
NUMBER(nvmlDeviceGetPowerUsage, "power_mw")

result nvmlDeviceGetIndex(gpu device, unsigned *out) { return own_index(device, out); }
result nvmlDeviceGetMinorNumber(gpu device, unsigned *out) { return own_index(device, out); }

result nvmlDeviceGetTemperature(gpu device, unsigned sensor, unsigned *out)
{
    return sensor ? INVALID_ARGUMENT : fact(device, "temperature", out);
}

result nvmlDeviceGetTemperatureV(gpu device, temperature_v1 *out)
{
    unsigned celsius = 0;
    if (!out || out->sensor)
        return INVALID_ARGUMENT;
    if (out->version != TEMPERATURE_V1)
        return VERSION_MISMATCH;
    result code = fact(device, "temperature", &celsius);
    out->celsius = (int)celsius;
    return code;
}

/* Only cards that can be split know the question: the file is missing elsewhere. */
result nvmlDeviceGetMigMode(gpu device, unsigned *current, unsigned *pending)
{
    int i;
    result code = enter(device, &i);
    if (code)
        return code;
    if (!exists(i, "mig_mode"))
        return NOT_SUPPORTED;
    unsigned mode = (unsigned)gpu_number(i, "mig_mode");
    code = give(mode, current);
    return code ? code : give(mode, pending);
}

result nvmlDeviceGetUtilizationRates(gpu device, utilization *out)
{
    int i;
    result code = enter(device, &i);
    if (code)
        return code;
    if (!out)
        return INVALID_ARGUMENT;
    bytes total = gpu_number(i, "total");
    out->gpu = (unsigned)gpu_number(i, "utilisation");
    out->memory = total ? (unsigned)(100 * used_bytes(i) / total) : 0;
    return SUCCESS;
}

static result place(int index, pci_info *out)
{
    if (!out)
        return INVALID_ARGUMENT;
    memset(out, 0, sizeof *out);
    out->bus = (unsigned)index + 1;
    out->device_id = 0x268410de; /* vendor 10de: NVIDIA */
    snprintf(out->legacy_id, sizeof out->legacy_id, "0000:%02X:00.0", out->bus);
    snprintf(out->id, sizeof out->id, "00000000:%02X:00.0", out->bus);
    return SUCCESS;
}

result nvmlDeviceGetPciInfo_v3(gpu device, pci_info *out)
{
    int i;
    result code = enter(device, &i);
    return code ? code : place(i, out);
}

result nvmlDeviceGetTopologyCommonAncestor(gpu device, gpu other, unsigned *out)
{
    int i, j;
    result code = enter(device, &i);
    if (!code)
        code = enter(other, &j);
    return code ? code : give(topology_level(i, j), out);
}

/* A GPU without links does not know the question; one that has them, no further link. */
static result linked(gpu device, unsigned link, int *other)
{
    int i;
    result code = enter(device, &i);
    if (code)
        return code;
    if (!exists(i, "nvlink"))
        return NOT_SUPPORTED;
    return nvlink_end(i, link, other) ? SUCCESS : INVALID_ARGUMENT;
}

result nvmlDeviceGetNvLinkState(gpu device, unsigned link, unsigned *out)
{
    int other;
    result code = linked(device, link, &other);
    return code ? code : give(other >= 0, out);
}

result nvmlDeviceGetNvLinkRemotePciInfo_v2(gpu device, unsigned link, pci_info *out)
{
    int other;
    result code = linked(device, link, &other);
    if (code)
        return code;
    return other >= 0 ? place(other, out) : NOT_SUPPORTED;
}

static result memory(gpu device, memory_v2 *out)
{
    int i;
    result code = enter(device, &i);
    if (!code)
        code = device_fault("memory", i);
    if (code)
        return code;
    out->total = gpu_number(i, "total");
    out->reserved = gpu_number(i, "reserved");
    out->used = used_bytes(i);
    bytes taken = out->used + out->reserved;
    out->free = taken < out->total ? out->total - taken : 0;
    return SUCCESS;
}

/* The first version counts what the driver reserves as used; the second tells them apart. */
result nvmlDeviceGetMemoryInfo(gpu device, memory_v1 *out)
{
    memory_v2 now = {0};
    if (!out)
        return INVALID_ARGUMENT;
    result code = memory(device, &now);
    if (code == SUCCESS)
        *out = (memory_v1){now.total, now.free, now.used + now.reserved};
    return code;
}

result nvmlDeviceGetMemoryInfo_v2(gpu device, memory_v2 *out)
{
    if (!out)
        return INVALID_ARGUMENT;
    return out->version == MEMORY_V2 ? memory(device, out) : VERSION_MISMATCH;
}

static result processes(gpu device, const char *kind, unsigned *count, process *out)
{
    process found[MAX_HOLDERS];
    int i;
    result code = enter(device, &i);
    if (!code)
        code = device_fault("processes", i);
    if (code)
        return code;
    if (!count || (*count && !out))
        return INVALID_ARGUMENT;
    unsigned room = *count;
    *count = holders_at_rest(i, kind, found);
    if (*count > room)
        return INSUFFICIENT_SIZE;
    int hidden = switched("hide_process_memory"), shifted = switched("shift_pids");
    for (unsigned n = 0; n < *count; n++) {
        out[n] = found[n];
        out[n].pid += shifted ? PID_SHIFT : 0;
        out[n].used = hidden ? NOT_AVAILABLE : found[n].used;
    }
    return SUCCESS;
}

#define PROCESSES(function, kind) \
    result function(gpu device, unsigned *count, process *out) \
    { \
        return processes(device, kind, count, out); \
    }

/* The third version changed what is listed, not how. */
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, "compute")
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "compute")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, "graphics")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics")

result nvmlDeviceGetProcessUtilization(gpu device, void *out, unsigned *count, bytes since)
{
    int i;
    (void)out, (void)count, (void)since;
    result code = enter(device, &i);
    return code ? code : NOT_FOUND;
}

result nvmlDeviceGetAccountingMode(gpu device, unsigned *out)
{
    int i;
    result code = enter(device, &i);
    return code ? code : give((unsigned)switched("accounting"), out);
}

/* The peak outlives its process. */
result nvmlDeviceGetAccountingStats(gpu device, unsigned pid, accounting *out)
{
    char name[64], text[LINE];
    bytes started, used, peak;
    int i;
    result code = enter(device, &i);
    if (code)
        return code;
    if (!out)
        return INVALID_ARGUMENT;
    if (!switched("accounting"))
        return NOT_SUPPORTED;
    pid -= switched("shift_pids") ? PID_SHIFT : 0;
    snprintf(name, sizeof name, "compute/%u", pid);
    if (!gpu_text(i, name, text, sizeof text) ||
        sscanf(text, "%llu %llu %llu", &started, &used, &peak) != 3)
        return NOT_FOUND;
    *out = (accounting){.peak = peak, .running = (unsigned)alive(pid, started)};
    return SUCCESS;
}
