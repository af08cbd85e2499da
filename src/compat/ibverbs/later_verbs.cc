// Verbs added to rdma-core since 57 (version nodes IBVERBS_1.15 to 1.18). Their header may not be
// installed, so their argument types are declared here. What a device without PCIe, or a fabric
// without a kernel, cannot support is refused with the errno that programs test for, and a reason.

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "compat/ibverbs/objects.h"

namespace weft::compat {
namespace {

constexpr const char* kNoSteering =
    "DMA handles steer a device's PCIe writes (TPH); a device here is part of the program itself";
constexpr const char* kNoDmaBuf =
    "a DMA-BUF is how a kernel shares memory between devices; share a mapping of a file instead";
constexpr const char* kNoCounters =
    "completions are counted by polling CQs: this device has no completion counters";

/// ibv_mr_init_attr of ibv_reg_mr_ex(3).
struct RegionAttributes {
  std::size_t length;
  int access;
  std::uint64_t comp_mask;
  std::uint64_t iova;
  void* address;
  int descriptor;
  std::uint64_t offset;
  void* dma_handle;
  void* buffer;
};
enum RegionMask : std::uint64_t {  // of comp_mask
  kHasIova = 1U << 0,
  kHasAddress = 1U << 1,
  kHasDescriptor = 1U << 2,
  kHasOffset = 1U << 3,
  kHasDmaHandle = 1U << 4,
  kHasBuffer = 1U << 5,
};
constexpr std::uint64_t kKnownMask = (1U << 6) - 1;

void* refuse_object(const char* reason) {
  refuse(EOPNOTSUPP, reason);
  return nullptr;
}

int refuse_descriptor() {
  refuse(EOPNOTSUPP, kNoDmaBuf);
  return -1;
}

/// An ibv_buf, opaque to programs: plain heap memory, since devices here have no memory of their
/// own.
struct Buffer {
  void* memory;
  std::size_t bytes;
  ibv_pd* pd;
};

[[nodiscard]] Buffer* buffer_of(void* its_buffer) { return static_cast<Buffer*>(its_buffer); }

/// True if the whole region is in the buffer and belongs to its PD.
[[nodiscard]] bool holds(const Buffer& buffer, const ibv_pd* pd, const RegionAttributes& region) {
  // Below the buffer's start the difference wraps to a value greater than any size.
  const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(region.address) -
                                reinterpret_cast<std::uintptr_t>(buffer.memory);
  return pd == buffer.pd && offset <= buffer.bytes && region.length <= buffer.bytes - offset;
}

/// Number of lanes of an ActiveWidth, and the rate per lane at an ActiveSpeed in tenths of Gb/s, as
/// in the `rate` file of sysfs.
[[nodiscard]] std::uint64_t lanes_of(std::uint8_t width) {
  switch (width) {
    case 2:
      return 4;
    case 4:
      return 8;
    case 8:
      return 12;
    case 16:
      return 2;
    default:
      return 1;
  }
}
[[nodiscard]] std::uint64_t tenths_of(std::uint32_t speed) {
  switch (speed) {
    case 2:
      return 50;
    case 4:
    case 8:
      return 100;
    case 16:
      return 140;
    case 32:
      return 250;
    case 64:
      return 500;
    case 128:
      return 1'000;
    case 256:
      return 2'000;
    default:
      return 25;
  }
}

}  // namespace
}  // namespace weft::compat

using namespace weft::compat;

extern "C" {

// --- IBVERBS_1.15

WEFT_EXPORT void* ibv_alloc_dmah(ibv_context*, void*) { return refuse_object(kNoSteering); }
WEFT_EXPORT int ibv_dealloc_dmah(void*) { return refuse(EOPNOTSUPP, kNoSteering); }

WEFT_EXPORT ibv_mr* ibv_reg_mr_ex(ibv_pd* pd, void* its_attributes) {
  const auto* const attributes = static_cast<const RegionAttributes*>(its_attributes);
  const std::uint64_t mask = attributes->comp_mask;
  const bool has_address = (mask & kHasAddress) != 0;
  if ((mask & ~kKnownMask) != 0) {
    refuse(EOPNOTSUPP, "comp_mask of ibv_reg_mr_ex has bits that are not known here");
    return nullptr;
  }
  if (has_address == ((mask & kHasDescriptor) != 0) || ((mask & kHasOffset) != 0 && has_address)) {
    refuse(EINVAL, "a region is memory at an address, or of a descriptor at an offset");
    return nullptr;
  }
  if ((mask & kHasBuffer) != 0 &&
      (!has_address || !holds(*buffer_of(attributes->buffer), pd, *attributes))) {
    refuse(EINVAL, "a region of a buffer is a part of it, in the PD that it was allocated for");
    return nullptr;
  }
  if ((mask & (kHasDescriptor | kHasDmaHandle)) != 0) {
    refuse(EOPNOTSUPP, (mask & kHasDescriptor) != 0 ? kNoDmaBuf : kNoSteering);
    return nullptr;
  }
  return (mask & kHasIova) != 0
             ? ibv_reg_mr_iova2(pd, attributes->address, attributes->length, attributes->iova,
                                static_cast<unsigned>(attributes->access))
             : ibv_reg_mr(pd, attributes->address, attributes->length, attributes->access);
}

// --- IBVERBS_1.16

WEFT_EXPORT int ibv_dm_export_dmabuf_fd(ibv_dm*) { return refuse_descriptor(); }

/// In units of 100 Mb/s, for the port's link as it is active.
WEFT_EXPORT int ibv_query_port_speed(ibv_context* c, std::uint32_t port, std::uint64_t* speed) {
  ibv_port_attr attributes{};
  const int error = port > UINT8_MAX
                        ? refuse(EINVAL, "a port's number has eight bits")
                        : verbs_get_ctx(c)->query_port(c, static_cast<std::uint8_t>(port),
                                                       &attributes, sizeof attributes);
  if (error == 0) {
    *speed = lanes_of(attributes.active_width) * tenths_of(attributes.active_speed);
  }
  return error;
}

// --- IBVERBS_1.17

/// Allocates whole pages, as rdma-core does.
WEFT_EXPORT void* ibv_alloc_buf(ibv_pd* pd, std::size_t bytes, void** out) {
  auto buffer = std::make_unique<Buffer>(Buffer{.memory = nullptr, .bytes = bytes, .pd = pd});
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  if (const int error = posix_memalign(&buffer->memory, page, bytes)) {
    refuse(error, "no memory for a buffer");
    return nullptr;
  }
  *out = buffer.get();
  return buffer.release()->memory;
}

WEFT_EXPORT void ibv_free_buf(void* its_buffer) {
  const std::unique_ptr<Buffer> buffer{buffer_of(its_buffer)};
  std::free(buffer->memory);
}

WEFT_EXPORT ibv_mr* ibv_reg_buf_mr(ibv_pd* pd, void* buffer, void* address, std::size_t length,
                                   int access) {
  RegionAttributes attributes{};
  attributes.length = length;
  attributes.access = access;
  attributes.comp_mask = kHasBuffer | kHasAddress;
  attributes.address = address;
  attributes.buffer = buffer;
  return ibv_reg_mr_ex(pd, &attributes);
}

// --- IBVERBS_1.18

WEFT_EXPORT int ibv_export_buf_dmabuf_fd(void*) {
  refuse(ENODATA, "the buffer is ordinary memory, of no DMA-BUF");
  return -1;
}
WEFT_EXPORT int _ibv_query_comp_cntr_caps(ibv_context*, void*, std::size_t) {
  return refuse(EOPNOTSUPP, kNoCounters);
}
WEFT_EXPORT void* ibv_create_comp_cntr(ibv_context*, void*) { return refuse_object(kNoCounters); }
WEFT_EXPORT int ibv_destroy_comp_cntr(void*) { return refuse(EOPNOTSUPP, kNoCounters); }
WEFT_EXPORT int ibv_set_comp_cntr(void*, std::uint64_t) { return refuse(EOPNOTSUPP, kNoCounters); }
WEFT_EXPORT int ibv_set_err_comp_cntr(void*, std::uint64_t) {
  return refuse(EOPNOTSUPP, kNoCounters);
}
WEFT_EXPORT int ibv_inc_comp_cntr(void*, std::uint64_t) { return refuse(EOPNOTSUPP, kNoCounters); }
WEFT_EXPORT int ibv_inc_err_comp_cntr(void*, std::uint64_t) {
  return refuse(EOPNOTSUPP, kNoCounters);
}
WEFT_EXPORT int ibv_read_comp_cntr(void*, std::uint64_t*) {
  return refuse(EOPNOTSUPP, kNoCounters);
}
WEFT_EXPORT int ibv_read_err_comp_cntr(void*, std::uint64_t*) {
  return refuse(EOPNOTSUPP, kNoCounters);
}
WEFT_EXPORT int ibv_qp_attach_comp_cntr(ibv_qp*, void*, void*) {
  return refuse(EOPNOTSUPP, kNoCounters);
}

}  // extern "C"
