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
#include "hca/limits.h"
#include "hca/memory_region.h"
#include "hca/port.h"
#include "hca/qp.h"
#include "hca/receive_queue.h"
#include "hca/types.h"
#include "hca/work_queue.h"
#include "hca/xrc.h"

namespace weft::hca {

/// How the network under the engines behaves (docs/ARCHITECTURE.md, decision 7).
enum class LossModel : std::uint8_t {
  Lossy,     ///< may lose silently: every expiry of the retry timer counts
  Reliable,  ///< says what it dropped: an expiry counts only after report_loss()
};

struct HcaConfiguration {
  DeviceLimits limits;
  LockPolicy lock_policy{LockPolicy::None};
  LossModel loss_model{LossModel::Lossy};
  std::uint64_t seed{};      ///< keys and whatever else must not be guessed
  Qpn first_qpn{Qpn{0x10}};  ///< QPNs of this process: [first_qpn, first_qpn + limits.max_qp)
  std::uint8_t port_count{1};
  std::uint32_t max_train_bytes{16'384};  ///< policy; 0 for single packets
  TimeScale time_scale{};                 ///< of the retry and RNR timers
  UserMemory* user_memory{};              ///< outlives the HCA; null: every page is present
  bool has_fast_path{true};               ///< false: the usual packet goes the general way, too
};

/// How pages of on-demand regions are brought in ahead of their use.
struct Prefetch {
  bool for_writing{};
  bool fault{true};     ///< false: only what is present already counts, nothing is brought in
  bool must_succeed{};  ///< the caller waits for the outcome; otherwise this is but advice
};

/// An XRC initiator has no `recv_cq` and no SRQ; a target has none of the next four, but an
/// `xrcd`. What is there nevertheless is ignored, as rdma-core does.
struct QpInit {
  QpType type{QpType::Rc};
  ProtectionDomain* pd{};
  CompletionQueue* send_cq{};
  CompletionQueue* recv_cq{};
  SharedReceiveQueue* srq{};
  XrcDomain* xrcd{};
  bool signal_all{};
  QpCapabilities capabilities;  ///< asked; the actual ones (at least as large) are in query()
  std::optional<XrcProxyFor> proxy_for{};  ///< of a target QP that no program sees
};

/// One HCA as one process has it open: the verbs objects and their rules. The driver owns time,
/// threads and the network: it feeds `handle_packet` and timers, drains `Qp::transmit`, and says
/// what ports look like. Object creation and destruction may come from any thread under
/// LockPolicy::Spin; a destroyed object must not be in use elsewhere, as the verbs documentation
/// demands. Packets for a QP may be under way when it goes, so the driver calls handle_packet and
/// destroy_qp one after the other, never at the same time.
class Hca {
 public:
  Hca(const HcaConfiguration& configuration, HcaEvents& events);
  ~Hca();

  [[nodiscard]] const HcaConfiguration& configuration() const;

  /// Replaces what the subnet manager and the link say of a port. QPs follow at once, connected or
  /// not: the P_Key at their index, the source LID with their path bits, a datagram's longest
  /// payload. A QP whose P_Key is gone sends and takes nothing.
  void set_port(PortNumber port, const PortAttributes& attributes);
  [[nodiscard]] PortAttributes port(PortNumber port) const;

  // --- verbs: each refuses with a reason
  // ---------------------------------------------------------------------------
  Result<ProtectionDomain*> allocate_pd();
  Result<void> deallocate_pd(ProtectionDomain& pd);
  Result<MemoryRegion*> register_memory(ProtectionDomain& pd, std::uint64_t iova,
                                        std::span<std::byte> memory, AccessFlags access);
  /// All of the program's address space at its own addresses, paged on demand (R-ODP-2).
  Result<MemoryRegion*> register_address_space(ProtectionDomain& pd, AccessFlags access);
  /// The null region: local reads give zeros, local writes are discarded; peers have no access.
  Result<MemoryRegion*> register_null(ProtectionDomain& pd);
  /// Changes a region in place: its keys stay. Returns what stands for it from now on; on refusal
  /// the region is as it was (IBTA vol 1 §11.2.8.8).
  Result<MemoryRegion*> reregister_memory(MemoryRegion& region, ProtectionDomain& pd,
                                          std::uint64_t iova, std::span<std::byte> memory,
                                          AccessFlags access);
  Result<void> deregister_memory(MemoryRegion& region);
  /// A region of another process, under its key, in what stands for its PD here; `memory` is where
  /// it is mapped, null where it is not: then it has its keys, and nobody's access.
  Result<MemoryRegion*> import_memory(ProtectionDomain& pd, RKey key, std::uint64_t iova,
                                      std::uint64_t length, std::byte* memory, AccessFlags access);
  void remove_memory(MemoryRegion& region);
  Result<MemoryWindow*> allocate_window(ProtectionDomain& pd, WindowType type);
  void deallocate_window(MemoryWindow& window);  // bound or not
  /// Makes pages of on-demand regions present before they are needed (T-ODP-5).
  Result<void> prefetch(const ProtectionDomain& pd, std::span<const Sge> ranges, Prefetch how);
  Result<CompletionQueue*> create_cq(std::uint32_t capacity,
                                     const CompletionQueueOptions& options = {});
  Result<void> destroy_cq(CompletionQueue& cq);
  Result<SharedReceiveQueue*> create_srq(ProtectionDomain& pd, std::uint32_t depth,
                                         std::uint32_t max_sge, std::uint32_t limit);
  Result<void> modify_srq(SharedReceiveQueue& srq, std::optional<std::uint32_t> depth,
                          std::optional<std::uint32_t> limit);
  Result<void> destroy_srq(SharedReceiveQueue& srq);
  /// With a name: one that other processes have open under it, too.
  Result<XrcDomain*> open_xrc_domain(std::uint32_t name = 0);
  Result<void> close_xrc_domain(XrcDomain& domain);
  /// An SRQ for the target QPs of a domain; what it receives completes in `cq`.
  Result<SharedReceiveQueue*> create_xrc_srq(ProtectionDomain& pd, XrcDomain& domain,
                                             CompletionQueue& cq, std::uint32_t depth,
                                             std::uint32_t max_sge);
  /// The proxy of another process's target QP, ready to receive (hca/xrc_relay.h).
  Result<Qp*> create_proxy(XrcDomain& domain, const XrcProxyRequest& request);
  Result<WorkQueue*> create_wq(const WorkQueue::Init& init);
  Result<void> destroy_wq(WorkQueue& wq);
  Result<AddressHandle*> create_ah(ProtectionDomain& pd, const AhAttributes& attributes);
  Result<void> destroy_ah(AddressHandle& ah);
  Result<Qp*> create_qp(const QpInit& init);
  Result<void> destroy_qp(Qp& qp);
  Result<void> attach_multicast(Qp& qp, const Gid& mgid, Lid mlid);  // R-RVT-21
  Result<void> detach_multicast(Qp& qp, const Gid& mgid, Lid mlid);

  // --- driver
  // ------------------------------------------------------------------------------------------------------
  /// Delivers a packet that arrived at `port` to its QP (or to all QPs of that port that are
  /// attached to its multicast group). A
  /// packet without a QP is dropped and counted, as on hardware. Returns the QP that took it, or
  /// null (dropped, or multicast).
  Qp* handle_packet(PortNumber port, const Packet& packet, Instant now);

  /// All QPs, for a driver that has few (sim, tests). None comes or goes meanwhile: `visit` must
  /// not create or destroy any, and other threads wait.
  template <class Visit>
  void for_each_qp(Visit visit) {
    visit_qps([](void* context, Qp& qp) { (*static_cast<Visit*>(context))(qp); }, &visit);
  }

  struct Counters {
    std::uint64_t no_qp{};  // packets for a QPN that nobody has
    std::uint64_t pkey_violations{};
    std::uint64_t qkey_violations{};
    std::uint64_t malformed{};
  };
  [[nodiscard]] Counters counters() const;

 private:
  friend class Qp;
  [[nodiscard]] Result<PacketRoute> make_route(const AhAttributes& attributes) const;
  [[nodiscard]] Result<PKey> pkey_at(PortNumber port, std::uint16_t index) const;
  void report_bad_key(const BadKey& bad);
  void deliver_multicast(PortNumber port, const Packet& packet, Instant now);
  Result<Qpn> reserve_qpn();
  Result<SharedReceiveQueue*> make_srq(ProtectionDomain& pd, std::uint32_t depth,
                                       std::uint32_t max_sge, std::uint32_t limit, XrcSrqInit xrc);
  Result<void> withdraw_xrc_srq(SharedReceiveQueue& srq);
  void fence_qps();
  [[nodiscard]] Result<void> check_size(std::uint64_t bytes) const;  // of a region
  [[nodiscard]] Result<void> check_qp_init(const QpInit& init) const;
  [[nodiscard]] Result<QpInit> actual_init(const QpInit& asked) const;
  void visit_qps(void (*visit)(void*, Qp&), void* context);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::hca
