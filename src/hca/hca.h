#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/lock.h"
#include "base/result.h"
#include "base/time.h"
#include "hca/address_handle.h"
#include "hca/completion_queue.h"
#include "hca/events.h"
#include "hca/fast_region.h"
#include "hca/held_objects.h"
#include "hca/limits.h"
#include "hca/memory_region.h"
#include "hca/placement.h"
#include "hca/qp.h"
#include "hca/receive_queue.h"
#include "hca/receive_scaling.h"
#include "hca/types.h"
#include "hca/work_queue.h"
#include "hca/xrc.h"

namespace weft::hca {

/// How the network below the engines loses packets (docs/ARCHITECTURE.md, decision 7).
enum class LossModel : std::uint8_t {
  Lossy,     ///< may lose packets silently, so every expiry of the retry timer counts
  Reliable,  ///< reports every loss, so an expiry counts only after Qp::report_loss()
};

/// Fixed properties of an Hca.
struct HcaConfiguration {
  DeviceLimits limits;
  LockPolicy lock_policy{LockPolicy::None};
  LossModel loss_model{LossModel::Lossy};
  std::uint64_t seed{};      ///< seeds everything that must be unpredictable, such as keys
  Qpn first_qpn{Qpn{0x10}};  ///< QPNs of this process: [first_qpn, first_qpn + limits.max_qp)
  std::uint8_t port_count{1};
  std::uint32_t max_train_bytes{16'384};  ///< policy; 0 disables trains
  TimeScale time_scale{};                 ///< scales the retry and RNR timers
  UserMemory* user_memory{};  ///< must outlive the HCA; null: all pages are always present
  bool has_fast_path{true};   ///< false: engines never use TransmitSink::send_fast
  PlacementPolicy placement{PlacementPolicy::Always};
  std::uint32_t least_placed_bytes{kLeastPlacedBytes};  ///< under PlacementPolicy::Always
};

/// How to prefetch pages of on-demand regions (ibv_advise_mr).
struct Prefetch {
  bool for_writing{};
  bool fault{true};     ///< false: check only which pages are present, bring none in
  bool must_succeed{};  ///< the caller waits for the outcome; otherwise this is only advice
};

/// Arguments of create_qp. An XRC initiator has no `recv_cq` and no `srq`; an XRC target has only
/// an `xrcd`. What does not apply is ignored, as rdma-core does.
struct QpInit {
  QpType type{QpType::Rc};
  ProtectionDomain* pd{};
  CompletionQueue* send_cq{};
  CompletionQueue* recv_cq{};
  SharedReceiveQueue* srq{};
  XrcDomain* xrcd{};
  bool signal_all{};
  QpCapabilities
      capabilities;  ///< requested; query() returns the actual ones, which are at least as large
  std::optional<XrcProxyFor> proxy_for{};  ///< set for a proxy QP, which no program sees
  /// UD: the number in packets, in place of the QP's own (R-QP-6); QP1's, for one. Not of this
  /// process's range, and of no other QP of the HCA.
  std::optional<Qpn> external_number{};
  /// UD: with a table the QP has neither `recv_cq` nor `srq`, and no receive queue.
  ReceiveScaling scaling{};
};

/// A host channel adapter as one process has it open: the verbs objects and their rules. The driver
/// owns time, threads and the network: it calls handle_packet() and the timeout functions, drains
/// Qp::transmit(), and describes the ports by set_port().
///
/// Threads: under LockPolicy::Spin objects may be created and destroyed on any thread. As with
/// verbs, an object must not be in use while it is destroyed. Packets for a QP may still be in
/// flight at that time, so the driver must serialise handle_packet() with destroy_qp().
class Hca {
 public:
  Hca(const HcaConfiguration& configuration, HcaEvents& events);
  ~Hca();

  [[nodiscard]] const HcaConfiguration& configuration() const;

  /// Replaces the attributes of a port. All QPs of the port follow at once, connected or not: the
  /// P_Key at their index, their source LID, and a datagram's maximum payload. A QP whose P_Key was
  /// removed neither sends nor receives.
  void set_port(PortNumber port, const PortAttributes& attributes);
  [[nodiscard]] PortAttributes port(PortNumber port) const;

  // --- verbs; each refusal carries its reason
  /// Allocates a protection domain; deallocation is refused while objects use it (R-PD-2).
  Result<ProtectionDomain*> allocate_pd();
  Result<void> deallocate_pd(ProtectionDomain& pd);
  /// Registers `memory` under new keys (see MemoryTable::add). `iova` is the address by which work
  /// requests and peers name its first byte.
  Result<MemoryRegion*> register_memory(ProtectionDomain& pd, std::uint64_t iova,
                                        std::span<std::byte> memory, AccessFlags access);
  /// Registers the program's whole address space, paged on demand (R-ODP-2).
  Result<MemoryRegion*> register_address_space(ProtectionDomain& pd, AccessFlags access);
  /// Registers the null region: local reads return zeros, local writes are discarded, peers have no
  /// access.
  Result<MemoryRegion*> register_null(ProtectionDomain& pd);
  /// Changes a region in place and keeps its keys. Returns the region that replaces `region`; if
  /// the call is refused, `region` is unchanged (IBTA vol 1 §11.2.8.8).
  Result<MemoryRegion*> reregister_memory(MemoryRegion& region, ProtectionDomain& pd,
                                          std::uint64_t iova, std::span<std::byte> memory,
                                          AccessFlags access);
  /// Deregisters a region; returns when no QP uses it any more. Refused while windows are bound to
  /// it.
  Result<void> deregister_memory(MemoryRegion& region);
  /// Registers a region of another process under that process's key. `memory` is where it is mapped
  /// here; null if it cannot be mapped: the key then exists, and every access through it fails.
  Result<MemoryRegion*> import_memory(ProtectionDomain& pd, RKey key, std::uint64_t iova,
                                      std::uint64_t length, std::byte* memory, AccessFlags access);
  /// Removes a region from import_memory(); returns when no QP uses it any more.
  void remove_memory(MemoryRegion& region);
  /// A region that REG_MR work requests register, of a list of at most so many pieces.
  Result<FastRegion*> allocate_fast_region(ProtectionDomain& pd, std::uint32_t max_pieces);
  /// Maps memory for the next REG_MR: its first byte is at `iova` then.
  void map(FastRegion& region, std::uint64_t iova, PagedMemory memory);
  /// The same of data and of its protection information, as sign() says.
  void map_signed(FastRegion& region, std::uint64_t iova, PagedMemory data, PagedMemory metadata);
  /// What the next REG_MR makes of what map_signed() mapped; how many bytes its key names then.
  /// InvalidArgument: the memory has not that form.
  Result<std::uint64_t> sign(FastRegion& region, const verbs::SignatureAttributes& attributes);
  /// The first error that the checks of the newest registration have found since the last call.
  [[nodiscard]] verbs::SignatureStatus take_signature_status(FastRegion& region);
  /// Shows what was mapped under `key` at once, as REG_MR does in the order of a send queue.
  Result<void> show(FastRegion& region, RKey key, AccessFlags access);
  /// Invalidates what these keys of `pd` show; returns when no QP uses it any more. Keys that show
  /// nothing are passed over.
  void hide(const ProtectionDomain& pd, std::span<const RKey> keys);
  void deallocate_fast_region(FastRegion& region);
  /// Allocates an unbound memory window.
  Result<MemoryWindow*> allocate_window(ProtectionDomain& pd, WindowType type);
  void deallocate_window(MemoryWindow& window);  // bound or not
  /// Makes pages of on-demand regions present ahead of their use (T-ODP-5).
  Result<void> prefetch(const ProtectionDomain& pd, std::span<const Sge> ranges, Prefetch how);
  /// Creates a CQ for `capacity` completions; destruction is refused while QPs or WQs use it.
  Result<CompletionQueue*> create_cq(std::uint32_t capacity,
                                     const CompletionQueueOptions& options = {});
  Result<void> destroy_cq(CompletionQueue& cq);
  /// Whether destroy_cq() would be refused, and why.
  [[nodiscard]] static Result<void> check_unused(const CompletionQueue& cq);
  /// Creates an SRQ; `limit` arms SrqLimitReached, 0 does not (R-RVT-15).
  Result<SharedReceiveQueue*> create_srq(ProtectionDomain& pd, std::uint32_t depth,
                                         std::uint32_t max_sge, std::uint32_t limit);
  /// Changes what is given; see SharedReceiveQueue::modify.
  Result<void> modify_srq(SharedReceiveQueue& srq, std::optional<std::uint32_t> depth,
                          std::optional<std::uint32_t> limit);
  Result<void> destroy_srq(SharedReceiveQueue& srq);
  /// A non-zero `name` identifies a domain that other processes have open, too.
  Result<XrcDomain*> open_xrc_domain(std::uint32_t name = 0);
  Result<void> close_xrc_domain(XrcDomain& domain);
  /// Creates an SRQ for the target QPs of `domain`; its receives complete in `cq`.
  Result<SharedReceiveQueue*> create_xrc_srq(ProtectionDomain& pd, XrcDomain& domain,
                                             CompletionQueue& cq, std::uint32_t depth,
                                             std::uint32_t max_sge);
  /// Creates the proxy of another process's target QP, in a state that receives (hca/xrc_relay.h).
  Result<Qp*> create_proxy(XrcDomain& domain, const XrcProxyRequest& request);
  /// Creates a receive work queue without a QP (ibv_create_wq).
  Result<WorkQueue*> create_wq(const WorkQueue::Init& init);
  Result<void> destroy_wq(WorkQueue& wq);  ///< refused while an indirection table has it
  /// A table of a power of two of queues, for QPs that receive through it.
  Result<IndirectionTable*> create_indirection_table(std::span<WorkQueue* const> queues);
  Result<void> destroy_indirection_table(IndirectionTable& table);  ///< refused while QPs use it
  Result<AddressHandle*> create_ah(ProtectionDomain& pd, const AddressVector& attributes);
  Result<void> destroy_ah(AddressHandle& ah);
  /// Creates a QP in RESET. Refuses what exceeds the device's limits or does not fit the type; see
  /// QpInit.
  Result<Qp*> create_qp(const QpInit& init);
  /// Destroys a QP and removes its completions from its CQs.
  Result<void> destroy_qp(Qp& qp);
  Result<void> attach_multicast(Qp& qp, const Gid& mgid, Lid mlid);  // R-RVT-21
  Result<void> detach_multicast(Qp& qp, const Gid& mgid, Lid mlid);

  // --- driver
  /// Delivers a packet that arrived at `port` to its QP, or to all QPs of the port that are
  /// attached to its multicast group. A packet without a QP is dropped and counted, as hardware
  /// does. Returns the QP that received it; null if it was dropped or multicast.
  Qp* handle_packet(PortNumber port, const Packet& packet, Instant now);

  /// Calls `visit` for every QP; for drivers with few of them (sim, tests). Holds the lock of
  /// object creation, so `visit` must not create or destroy a QP.
  template <class Visit>
  void for_each_qp(Visit visit) {
    visit_qps([](void* context, Qp& qp) { (*static_cast<Visit*>(context))(qp); }, &visit);
  }

  /// What the program holds now. Any thread, but none that holds a QP's lock.
  [[nodiscard]] HeldObjects held_objects();

  /// Dropped packets, counted since creation.
  struct Counters {
    std::uint64_t no_qp{};  // packets for a QPN without a QP
    std::uint64_t pkey_violations{};
    std::uint64_t qkey_violations{};
    std::uint64_t malformed{};
  };
  /// A consistent copy is not guaranteed: each counter is exact, but they are read one by one.
  [[nodiscard]] Counters counters() const;

 private:
  friend class Qp;
  [[nodiscard]] Result<PacketRoute> make_route(const AddressVector& attributes) const;
  [[nodiscard]] Result<PKey> pkey_at(PortNumber port, std::uint16_t index) const;
  void report_bad_key(const BadKey& bad);
  void deliver_multicast(PortNumber port, const Packet& packet, Instant now);
  Result<Qpn> reserve_qpn();
  Result<SharedReceiveQueue*> make_srq(ProtectionDomain& pd, std::uint32_t depth,
                                       std::uint32_t max_sge, std::uint32_t limit, XrcSrqInit xrc);
  Result<void> withdraw_xrc_srq(SharedReceiveQueue& srq);
  void fence_qps();
  void wait_for_responders();
  void fence(const MemoryRegion& removed);
  void free_retired(FastRegion& region);
  [[nodiscard]] Result<void> check_size(std::uint64_t bytes) const;  // of a region
  [[nodiscard]] Result<void> check_qp_init(const QpInit& init) const;
  [[nodiscard]] Result<QpInit> actual_init(const QpInit& asked) const;
  void visit_qps(void (*visit)(void*, Qp&), void* context);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::hca
