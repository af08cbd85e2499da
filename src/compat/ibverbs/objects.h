#pragma once

// The C objects that programs hold, each the first member of ours, so that one pointer is both.
// Nothing here knows a protocol: verbs are translated and handed to host::Process and hca::Hca.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "compat/ibverbs/abi.h"
#include "compat/ibverbs/handles.h"
#include "hca/hca.h"
#include "host/process.h"
#include "os/event_queue.h"
#include "os/unique_fd.h"

namespace weft::compat {

struct CompletionQueueObject;
struct Context;
class PeerPd;
class PeerMr;

/// A device as a program sees it. What stands behind `device` must look like rdma-core's own
/// verbs_device: libmlx5 and libefa compare the pointer behind it with theirs.
struct Device {
  ibv_device device{};
  const void* driver_operations{};
  std::atomic<int> references{1};
  void* list[2]{};
  void* sysfs{};
  std::uint64_t core_support{};
  std::uint32_t hca{};  // counted from 0 within the host
  Guid guid;
};
static_assert(offsetof(Device, driver_operations) == 664);

/// Policy: device memory of an open device, in bytes.
inline constexpr std::uint64_t kMaxDeviceMemory = 1U << 20;

struct AsyncEventRecord {
  ibv_async_event event;
};

/// What an asynchronous event is about, which is what its `element` names. The destruction of an
/// object waits until the events about it are acknowledged.
enum class EventSource : std::uint8_t {
  PortOrDevice,
  CompletionQueue,
  QueuePair,
  SharedReceiveQueue
};
[[nodiscard]] EventSource event_source(ibv_event_type type);

/// An open device.
struct Context {
  host::Process* process{};
  hca::Hca* engine{};
  std::uint32_t hca{};
  Device* device{};
  os::UniqueFd command;  // names the open device to who imports it
  std::shared_ptr<Handles> handles;
  os::EventQueue<AsyncEventRecord> async_events;
  verbs_context verbs{};  // the program holds &verbs.context
};

struct CompletionChannel {
  ibv_comp_channel channel{};
  os::EventQueue<CompletionQueueObject*> events;
};

struct ThreadDomainObject {
  ibv_td td{};
  std::atomic<std::uint32_t> uses{};
};

/// A protection domain, or a parent domain: the same PD under another name, for objects that a
/// program's own allocator has memory for.
struct ProtectionDomainObject {
  ibv_pd pd{};
  hca::ProtectionDomain* engine{};
  std::atomic<std::uint32_t> uses{};  // objects made with this name of the PD
  ProtectionDomainObject* below{};    // of a parent domain
  std::shared_ptr<PeerPd> foreign;    // of one that another process has allocated
  ThreadDomainObject* thread_domain{};
  void* (*allocate)(ibv_pd*, void*, std::size_t, std::size_t, std::uint64_t){};
  void (*release)(ibv_pd*, void*, void*, std::uint64_t){};
  void* allocator_context{};
};

/// Where an object's own memory comes from.
struct ObjectHome {
  ibv_pd* domain{};
  bool is_the_programs{};  // the parent domain's allocator gave it
};

struct MemoryRegionObject {
  ibv_mr mr{};
  std::uint64_t iova{};
  unsigned access{};
  std::shared_ptr<PeerMr> foreign;  // of one that another process has registered
};

struct MemoryWindowObject {
  ibv_mw mw{};
  hca::MemoryWindow* engine{};
};

/// Device memory is memory of the process, handed out up to the device's limit.
struct DeviceMemoryObject {
  ibv_dm dm{};
  std::shared_ptr<DeviceMemory> memory;
};

struct AddressHandleObject {
  ibv_ah ah{};
  hca::AddressHandle* engine{};
};

struct CompletionQueueObject {
  ibv_cq_ex cq{};
  hca::CompletionQueue* engine{};
  Context* context{};
  std::uint32_t completion_events{};  // handed to the program; under cq.mutex
  std::uint32_t asynchronous_events{};
  ObjectHome home;
  hca::Wc current;  // of an extended poll
  std::uint64_t current_stamp{};
};

/// One of the times that an XRC domain is open.
struct XrcDomainObject {
  ibv_xrcd xrcd{};
  hca::XrcDomain* engine{};
  std::atomic<std::uint32_t> uses{};  // objects made with it
};

struct SharedReceiveQueueObject {
  ibv_srq srq{};
  hca::SharedReceiveQueue* engine{};
  XrcDomainObject* xrcd{};  // of an XRC SRQ
  Context* context{};
  std::uint32_t asynchronous_events{};
  ObjectHome home;
};

struct WorkQueueObject {
  ibv_wq wq{};
  hca::WorkQueue* engine{};
  Context* context{};
};

/// One work request that an extended post is building.
struct PendingWr {
  hca::SendWr wr;
  hca::WindowBinding binding;  // of one that binds a window
  std::size_t first_sge{};
  std::size_t sge_count{};
  std::size_t first_inline_byte{};
  std::size_t inline_bytes{};
  bool is_inline{};
};

/// By which another process knows a target QP of an XRC domain (host::Process::open_target).
struct PeerTarget {
  std::uint32_t domain{};
  Qpn number;
};

/// A QP; of an XRC target QP, which programs may open again, one of its handles.
/// ibv_qp_ex::wr_flush of rdma-core 46 and later, which programs call inline.
using WrFlush = void(ibv_qp_ex*, std::uint32_t rkey, std::uint64_t remote_address,
                     std::size_t length, std::uint8_t type, std::uint8_t level) noexcept;

struct QpObject {
  ibv_qp_ex qp{};
  WrFlush* wr_flush{};  // of newer headers: where their ibv_qp_ex goes on
  hca::Qp* engine{};    // of a foreign target one that is never connected, and refuses what it does
  std::optional<PeerTarget> foreign;
  XrcDomainObject* xrcd{};  // of an XRC target QP
  Context* context{};
  bool has_send_operations{};
  bool signal_all{};
  std::uint32_t asynchronous_events{};
  ObjectHome home;
  // Between wr_start and wr_complete; they keep their capacity, so that posting allocates nothing.
  std::vector<PendingWr> pending;
  std::vector<hca::Sge> pending_sges;
  std::vector<hca::SendWr> series;  // as wr_complete() posts it
  std::vector<std::byte> pending_bytes;
  int pending_error{};
};

/// Our object of a C object. Both begin at the same address.
template <class Object, class Front>
[[nodiscard]] Object& object_of(Front* front) {
  return *static_cast<Object*>(static_cast<void*>(front));
}

[[nodiscard]] inline Context& context_of(ibv_context* context) {
  return *static_cast<Context*>(static_cast<void*>(verbs_get_ctx(context)->priv));
}

/// False in a child of fork(), which has no verbs objects, and for what an earlier attachment left.
[[nodiscard]] bool is_alive(const Context& context);

/// The attachment of this program, made on first use; null with a message on standard error when
/// there is no fabric to attach to.
[[nodiscard]] host::Process* process();

/// Sets errno and returns it; says why with WEFT_EXPLAIN=1.
int refuse(const Error& error);
int refuse(int error_number, std::string_view reason);
/// What a child of fork() asks of its parent's objects; off the way of those who may.
[[gnu::cold, gnu::noinline]] int refuse_in_child();

[[nodiscard]] bool explains_errors();
void explain(std::string_view reason);

/// Objects of a domain keep it from being deallocated.
void hold(ibv_pd* pd);
void release_hold(ibv_pd* pd);
[[nodiscard]] bool is_parent_domain(ibv_pd* pd);

/// Memory for an object, from the allocator of its domain if that has one; null after refuse().
[[nodiscard]] void* allocate_object(ObjectHome& home, std::size_t size, std::size_t alignment);
void free_object(const ObjectHome& home, void* memory, std::size_t alignment);

template <class Object>
void destroy_object(Object& object) {
  const ObjectHome home = object.home;
  object.~Object();
  free_object(home, &object, alignof(Object));
}

struct DestroyObject {
  template <class Object>
  void operator()(Object* object) const {
    destroy_object(*object);
  }
};
template <class Object>
using ObjectPointer = std::unique_ptr<Object, DestroyObject>;

/// An object of a domain (null for none); null after refuse().
template <class Object>
[[nodiscard]] ObjectPointer<Object> make_object(ibv_pd* domain) {
  ObjectHome home{.domain = domain};
  void* const memory = allocate_object(home, sizeof(Object), alignof(Object));
  if (memory == nullptr) {
    return nullptr;
  }
  auto* const object = new (memory) Object;
  object->home = home;
  return ObjectPointer<Object>{object};
}

/// A CQ of a domain (null for none); null after refuse().
[[nodiscard]] CompletionQueueObject* make_cq(Context& context, int cqe, void* cq_context,
                                             ibv_comp_channel* channel, int vector, ibv_pd* domain,
                                             const hca::CompletionQueueOptions& options);

/// What a program holds of a region; the caller adds what it knows of the memory.
[[nodiscard]] MemoryRegionObject* new_region_object(ibv_pd* pd, const RegionHandle& region);
/// The same for a region that has a handle already.
[[nodiscard]] MemoryRegionObject* new_region_name(ibv_pd* pd, const RegionHandle& region,
                                                  std::uint32_t handle);
[[nodiscard]] ibv_pd* new_domain_object(ibv_context* context, hca::ProtectionDomain& domain);
[[nodiscard]] ibv_dm* new_device_memory_object(ibv_context* context,
                                               std::shared_ptr<DeviceMemory> memory);

/// A context of a device that stands open under a descriptor, which it then owns; null after
/// refuse(). Handles are shared with those that it was imported from.
[[nodiscard]] ibv_context* new_context(Device& device, os::UniqueFd command,
                                       std::shared_ptr<Handles> handles);
/// The open context that a descriptor belongs to; null when it is none of this program's.
[[nodiscard]] Context* context_of_command(int command);
/// Calls `use` with the context whose command descriptor has that inode, which is not closed
/// meanwhile.
[[nodiscard]] Result<void> with_context_of(std::uint64_t inode,
                                           const std::function<Result<void>(const Context&)>& use);
/// The device of an HCA of this host; null: there is none.
[[nodiscard]] Device* device_of(std::uint32_t hca);

/// What all QPs have, whatever made them.
void init_qp_object(QpObject& object, ibv_context* context, hca::Qp& engine);
/// A handle of a target QP comes, goes (true: it was the last), is told.
void add_target(QpObject& object, XrcDomainObject& domain);
[[nodiscard]] bool remove_target(QpObject& object);
void push_to_targets(const hca::Qp& engine, AsyncEventRecord record);
void push_to_targets(const PeerTarget& foreign, AsyncEventRecord record);
/// The last handle goes.
[[nodiscard]] Result<void> release_target_handle(const QpObject& object);

/// The operations of a context, by subject.
void set_domain_operations(verbs_context& verbs);
void set_memory_operations(verbs_context& verbs);
void set_memory_window_operations(verbs_context& verbs);
void set_device_memory_operations(verbs_context& verbs);
void set_completion_operations(verbs_context& verbs);
void set_extended_completion_operations(verbs_context& verbs);
void set_qp_operations(verbs_context& verbs);
void set_srq_operations(verbs_context& verbs);
void set_device_operations(verbs_context& verbs);
void set_port_operations(verbs_context& verbs);
void set_xrc_operations(verbs_context& verbs);
void set_wq_operations(verbs_context& verbs);
void set_refused_operations(verbs_context& verbs);
void set_send_operations(QpObject& object);

/// Copies at most what the caller's header knows.
void copy_clamped(void* to, std::size_t to_size, const void* from, std::size_t from_size);

[[nodiscard]] hca::AhAttributes to_engine(const ibv_ah_attr& attributes);
[[nodiscard]] ibv_ah_attr from_engine(const hca::AhAttributes& attributes);
[[nodiscard]] Gid to_engine(const ibv_gid& gid);
[[nodiscard]] ibv_gid from_engine(const Gid& gid);
/// Where it is wanted: a completion that is made first and copied then costs twice.
void from_engine(const hca::Wc& wc, ibv_wc& out);

}  // namespace weft::compat
