// What bisheng-sys binds of HCCL.
#include <hccl/hccl.h>

// The rest is in no public header: how a kernel gets at the windows of all ranks of a communicator. Signatures,
// layouts and values are those that public examples of such kernels use with CANN 8 and 9.
extern "C" HcclResult HcclAllocComResourceByTiling(HcclComm comm, void *stream, void *tiling, void **context);
extern "C" HcclResult HcomGetCommHandleByGroup(const char *group, HcclComm *comm);
extern "C" HcclResult HcomGetL0TopoTypeEx(const char *group, uint32_t *topo, uint32_t flag);

// How ranks of a node are connected, as HcomGetL0TopoTypeEx answers.
const uint32_t MEGAMOE_TOPO_MESH = 1;

// What HcclAllocComResourceByTiling takes.
struct CommResourceTiling {
  uint32_t version;
  uint32_t num_configs;
  uint32_t config_offset[8];
  uint8_t debug_mode;
  uint8_t prepare_position;
  uint16_t num_queues;
  uint16_t num_blocks;
  uint8_t device_type;
  char reserved[17];
  struct {
    uint8_t skip_local_rank_copy;
    uint8_t skip_buffer_window_copy;
    uint8_t step_size;
    uint8_t version;
    char reserved[9];
    uint8_t engine;
    uint8_t source_type;
    uint8_t target_type;
    char group[128];
    char algorithm[128];
    uint32_t op_type;
    uint32_t reduce_type;
  } config;
};

// What it answers, in device memory, for ranks connected as a mesh.
struct MeshContext {
  uint64_t workspace;
  uint64_t workspace_bytes;
  uint32_t rank;
  uint32_t num_ranks;
  uint64_t window_bytes;
  uint64_t window_in[64];
  uint64_t window_out[64];
};

// The same for any other topology: the start of a larger struct. RingRemote[num_ranks] stand at an offset of it, behind
// the resources of HCCL's own algorithms.
struct RingContext {
  uint64_t workspace;
  uint64_t workspace_bytes;
  uint32_t rank;
  uint32_t num_ranks;
  uint64_t window_bytes;
  uint64_t window_in;
  uint64_t window_out;
};
const uint64_t MEGAMOE_RING_REMOTES_OFFSET = 2984;

// A rank of a ring; nothing for the own one.
struct RingRemote {
  uint64_t host;
  uint64_t device;
};

// What `device` of it points to.
struct RingRemoteWindow {
  uint32_t rank;
  uint32_t world_rank;
  uint64_t window_in;
  uint64_t window_out;
};
