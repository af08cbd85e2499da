#pragma once

// The C objects that programs hold. Each is the first member of ours, so that one pointer serves as
// both. This layer contains no protocol: verbs are translated and passed to host::Process and
// hca::Hca. As with libibverbs, any thread may call anything, but must not use an object while it
// is destroyed.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
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

/// A device as programs see it. The memory after `device` must resemble rdma-core's verbs_device:
/// libmlx5 and libefa compare the pointer that follows it with theirs.
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

/// An asynchronous event as the program gets it.
struct AsyncEventRecord {
  ibv_async_event event;
};

/// The kind of object that an asynchronous event's `element` names. Destroying an object waits
/// until its events are acknowledged.
enum class EventSource : std::uint8_t {
  PortOrDevice,
  CompletionQueue,
  QueuePair,
  SharedReceiveQueue
};
/// The kind of object of an event type.
[[nodiscard]] EventSource event_source(ibv_event_type type);

/// An open device.
struct Context {
  host::Process* process{};
  hca::Hca* engine{};
  std::uint32_t hca{};
  Device* device{};
  os::UniqueFd command;  // identifies the open device to importers
  std::shared_ptr<Handles> handles;
  os::EventQueue<AsyncEventRecord> async_events;
  verbs_context verbs{};  // the program holds &verbs.context
};

/// A completion channel; its descriptor is readable while events are queued.
struct CompletionChannel {
  ibv_comp_channel channel{};
  os::EventQueue<CompletionQueueObject*> events;
};

struct ThreadDomainObject {
  ibv_td td{};
  std::atomic<std::uint32_t> uses{};
};

/// A protection domain, or a parent domain: an alias of a PD whose objects come from the program's
/// allocator.
struct ProtectionDomainObject {
  ibv_pd pd{};
  hca::ProtectionDomain* engine{};
  std::atomic<std::uint32_t> uses{};  // objects created with this alias of the PD
  ProtectionDomainObject* below{};    // parent domain: the PD it extends
  std::shared_ptr<PeerPd> foreign;    // set if another process has allocated it
  ThreadDomainObject* thread_domain{};
  void* (*allocate)(ibv_pd*, void*, std::size_t, std::size_t, std::uint64_t){};
  void (*release)(ibv_pd*, void*, void*, std::uint64_t){};
  void* allocator_context{};
};

/// Where the memory of an object comes from.
struct ObjectHome {
  ibv_pd* domain{};
  bool is_the_programs{};  // from the parent domain's allocator
};

/// A memory region as the program holds it.
struct MemoryRegionObject {
  ibv_mr mr{};
  std::uint64_t iova{};
  unsigned access{};
  std::shared_ptr<PeerMr> foreign;  // set if another process has registered it
};

struct MemoryWindowObject {
  ibv_mw mw{};
  hca::MemoryWindow* engine{};
};

/// Device memory: memory of the process, allocated up to the device's limit.
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
  std::uint32_t completion_events{};  // delivered to the program; guarded by cq.mutex
  std::uint32_t asynchronous_events{};
  ObjectHome home;
  hca::Wc current;  // for extended polling
  std::uint64_t current_stamp{};
};

/// An XRC domain; one object for each time it was opened.
struct XrcDomainObject {
  ibv_xrcd xrcd{};
  hca::XrcDomain* engine{};
  std::atomic<std::uint32_t> uses{};  // objects created with it
};

struct SharedReceiveQueueObject {
  ibv_srq srq{};
  hca::SharedReceiveQueue* engine{};
  XrcDomainObject* xrcd{};  // for an XRC SRQ
  Context* context{};
  std::uint32_t asynchronous_events{};
  ObjectHome home;
};

struct WorkQueueObject {
  ibv_wq wq{};
  hca::WorkQueue* engine{};
  Context* context{};
};

struct IndirectionTableObject {
  ibv_rwq_ind_table table{};
  hca::IndirectionTable* engine{};
  Context* context{};
};

/// A work request under construction by an extended post.
struct PendingWr {
  hca::SendWr wr;
  hca::WindowBinding binding;  // for a memory window bind
  std::size_t first_sge{};
  std::size_t sge_count{};
  std::size_t first_inline_byte{};
  std::size_t inline_bytes{};
  bool is_inline{};
};

/// The identity of an XRC target QP in other processes (host::Process::open_target).
struct PeerTarget {
  std::uint32_t domain{};
  Qpn number;
};

/// ibv_qp_ex::wr_flush of rdma-core 46 and later, which programs call inline.
using WrFlush = void(ibv_qp_ex*, std::uint32_t rkey, std::uint64_t remote_address,
                     std::size_t length, std::uint8_t type, std::uint8_t level) noexcept;

/// A QP; for an XRC target QP, which programs may open again, one of its handles.
struct QpObject {
  ibv_qp_ex qp{};
  WrFlush* wr_flush{};  // newer headers continue ibv_qp_ex here
  hca::Qp* engine{};    // for a target of another process, a QP that is never connected and refuses
                        // operations
  std::optional<PeerTarget> foreign;
  XrcDomainObject* xrcd{};  // for an XRC target QP
  Context* context{};
  bool has_send_operations{};
  bool signal_all{};
  std::uint32_t asynchronous_events{};
  ObjectHome home;
  // Between wr_start and wr_complete. The vectors keep their capacity, so that posting allocates
  // nothing.
  std::vector<PendingWr> pending;
  std::vector<hca::Sge> pending_sges;
  std::vector<hca::SendWr> series;  // as posted by wr_complete()
  std::vector<std::byte> pending_bytes;
  int pending_error{};
};

/// Our object of a C object, which has the same address.
template <class Object, class Front>
[[nodiscard]] Object& object_of(Front* front) {
  return *static_cast<Object*>(static_cast<void*>(front));
}

/// Our context of a program's, through the verbs_context that surrounds it.
[[nodiscard]] inline Context& context_of(ibv_context* context) {
  return *static_cast<Context*>(static_cast<void*>(verbs_get_ctx(context)->priv));
}

/// False in a child of fork(), which has no verbs objects, and for objects of an earlier
/// attachment.
[[nodiscard]] bool is_alive(const Context& context);

/// This program's attachment to the fabric, made on first use; null, with a message on standard
/// error, if there is no fabric.
[[nodiscard]] host::Process* process();

/// Held by whoever uses what process() has returned, before a device of it is open.
[[nodiscard]] std::unique_lock<std::recursive_mutex> hold_attachment();
/// Of the attachment that process() returns; with hold_attachment().
[[nodiscard]] std::uint64_t attachment_number();
/// With hold_attachment(): attaches anew where the host has gone, as soon as nothing of that is
/// open and there is one of its name again. False: its devices are gone, and there are no others.
[[nodiscard]] bool renew_attachment();

/// Sets errno and returns it; prints the reason with WEFT_EXPLAIN=1.
int refuse(const Error& error);
int refuse(int error_number, std::string_view reason);
/// Refuses a child of fork() the use of its parent's objects; out of line for the sake of the
/// common path.
[[gnu::cold, gnu::noinline]] int refuse_in_child();

[[nodiscard]] bool explains_errors();
void explain(std::string_view reason);

/// References a domain on behalf of an object, which forbids its deallocation.
void hold(ibv_pd* pd);
void release_hold(ibv_pd* pd);
/// True if the PD is a parent domain (ibv_alloc_parent_domain(3)).
[[nodiscard]] bool is_parent_domain(ibv_pd* pd);

/// Allocates an object, by the domain's allocator if it has one; null after refuse().
[[nodiscard]] void* allocate_object(ObjectHome& home, std::size_t size, std::size_t alignment);
/// Returns the memory of an object to where it came from.
void free_object(const ObjectHome& home, void* memory, std::size_t alignment);

template <class Object>
/// Destroys an object from make_object(), and frees it.
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

/// Creates an object in a domain (null for none); null after refuse().
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

/// Creates a CQ in a domain (null for none); null after refuse().
[[nodiscard]] CompletionQueueObject* make_cq(Context& context, int cqe, void* cq_context,
                                             ibv_comp_channel* channel, int vector, ibv_pd* domain,
                                             const hca::CompletionQueueOptions& options);

/// The C object of a region, with a new handle; the caller fills in what it knows of the memory.
[[nodiscard]] MemoryRegionObject* new_region_object(ibv_pd* pd, const RegionHandle& region);
/// The same for a region that has a handle already.
[[nodiscard]] MemoryRegionObject* new_region_name(ibv_pd* pd, const RegionHandle& region,
                                                  std::uint32_t handle);
[[nodiscard]] ibv_pd* new_domain_object(ibv_context* context, hca::ProtectionDomain& domain);
[[nodiscard]] ibv_dm* new_device_memory_object(ibv_context* context,
                                               std::shared_ptr<DeviceMemory> memory);

/// Creates a context for an open device and takes ownership of its command descriptor; null after
/// refuse(). `handles` are shared with the contexts it was imported from.
[[nodiscard]] ibv_context* new_context(Device& device, os::UniqueFd command,
                                       std::shared_ptr<Handles> handles);
/// The open context with that command descriptor; null if there is none in this program.
[[nodiscard]] Context* context_of_command(int command);
/// Calls `use` with the context whose command descriptor has that inode, and keeps it open
/// meanwhile.
[[nodiscard]] Result<void> with_context_of(std::uint64_t inode,
                                           const std::function<Result<void>(const Context&)>& use);
/// The device of an HCA of this host; null if there is none.
[[nodiscard]] Device* device_of(std::uint32_t hca);

/// Initialises what all QPs have, however they were created.
void init_qp_object(QpObject& object, ibv_context* context, hca::Qp& engine);
/// Registers a handle of a target QP.
void add_target(QpObject& object, XrcDomainObject& domain);
/// Unregisters a handle; true if it was the last.
[[nodiscard]] bool remove_target(QpObject& object);
/// Delivers an event to all handles of a target QP.
void push_to_targets(const hca::Qp& engine, AsyncEventRecord record);
void push_to_targets(const PeerTarget& foreign, AsyncEventRecord record);
/// To be called for the last handle of a target QP.
[[nodiscard]] Result<void> release_target_handle(const QpObject& object);

/// These fill in the operations of a context, by subject.
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

/// Copies at most `to_size` bytes, the size that the caller's header knows.
void copy_clamped(void* to, std::size_t to_size, const void* from, std::size_t from_size);

[[nodiscard]] hca::AddressVector to_engine(const ibv_ah_attr& attributes);
[[nodiscard]] ibv_ah_attr from_engine(const hca::AddressVector& attributes);
[[nodiscard]] Gid to_engine(const ibv_gid& gid);
[[nodiscard]] ibv_gid from_engine(const Gid& gid);
/// Fills in `out` directly: making a completion and copying it would cost twice.
void from_engine(const hca::Wc& wc, ibv_wc& out);

}  // namespace weft::compat
