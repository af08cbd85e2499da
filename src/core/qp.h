#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/flags.h"
#include "base/identifiers.h"
#include "base/intrusive_list.h"
#include "base/lock.h"
#include "base/result.h"
#include "core/ah.h"
#include "core/cq.h"
#include "core/events.h"
#include "core/mr_pool.h"
#include "core/pd.h"
#include "core/resource.h"
#include "core/srq.h"
#include "verbs/qp_attributes.h"
#include "verbs/qp_type.h"
#include "verbs/receive_hash.h"

namespace weft::core {

class IndirectionTable;
class Xrcd;
struct DefaultDestination;

enum class QpCreateFlag : std::uint32_t {
  IntegrityEnabled = 1U << 0,  ///< uses integrity regions; refused where the device has none
  NetDeviceUse = 1U << 1,      ///< IPoIB's: receives multicast of its own no more
};
using QpCreateFlags = Flags<QpCreateFlag>;

struct QpInit {
  verbs::QpType type{verbs::QpType::Rc};
  Cq* send_cq{};
  Cq* recv_cq{};
  Srq* srq{};
  Xrcd* xrcd{};  ///< XRC targets
  /// Asked; the actual ones, at least as large, when the QP is there (R-QP-1).
  verbs::QpCapabilities capabilities{};
  /// At least so many RDMA contexts (core/rdma_rw.h): a pool of regions where the device's
  /// transport needs them, and more room in the send queue. 0: none.
  std::uint32_t max_rdma_contexts{};
  /// UD: the number in packets, where it is to be another than the driver's (R-QP-6).
  std::optional<Qpn> external_number{};
  bool signal_all{};
  QpCreateFlags flags{};
  PortNumber port{};                      ///< SMI and GSI
  IndirectionTable* indirection_table{};  ///< in place of a receive queue
  verbs::ReceiveHash receive_hash{};      ///< how packets are spread over it
  ObjectEventHandler event_handler{};
  void* context{};
  const char* caller{"core"};
  UserData* user_data{};
};

struct OpenQpTag;

/// Queue pair (IBTA vol 1 §10.2.4). Calls of one QP other than posting are its user's to serialise,
/// but for destroy_qp() after drain.
class Qp final : public Resource, public ListHook<OpenQpTag> {
 public:
  Qp(Device& device, Pd* pd, const QpInit& init);
  ~Qp();

  /// Null: an XRC target.
  [[nodiscard]] Pd* pd() const { return pd_; }
  [[nodiscard]] verbs::QpType type() const { return init_.type; }
  [[nodiscard]] Cq* send_cq() const { return init_.send_cq; }
  [[nodiscard]] Cq* recv_cq() const { return init_.recv_cq; }
  [[nodiscard]] Srq* srq() const { return init_.srq; }
  [[nodiscard]] Xrcd* xrcd() const { return init_.xrcd; }
  [[nodiscard]] const QpInit& init() const { return init_; }
  [[nodiscard]] void* context() const { return init_.context; }
  [[nodiscard]] bool is_integrity_enabled() const {
    return init_.flags.has(QpCreateFlag::IntegrityEnabled);
  }
  /// Number that peers use. It may differ from the driver's own number for the QP (R-QP-6).
  [[nodiscard]] Qpn number() const { return number_; }
  /// The QP itself, or of an opened XRC target the one that was opened.
  [[nodiscard]] Qp& real() const { return *real_; }
  /// Set by modify (Port); 0: none yet.
  [[nodiscard]] PortNumber port() const {
    return PortNumber{port_.load(std::memory_order_acquire)};
  }
  [[nodiscard]] std::size_t multicast_groups() const;
  /// Source GIDs that its address vectors hold.
  [[nodiscard]] const GidReference& sgid() const { return sgid_; }
  [[nodiscard]] const GidReference& alternate_sgid() const { return alternate_sgid_; }

  /// Regions for RDMA contexts, and for those with signatures.
  MrPool rdma_mrs;
  MrPool signature_mrs;

  // --- for drivers
  void set_number(Qpn number) { number_ = number; }
  void set_capabilities(const verbs::QpCapabilities& actual) { init_.capabilities = actual; }
  /// An event of this QP, for the handler that it was created with; of an XRC target for everyone's
  /// who has it open.
  void dispatch(const Event& event);

 private:
  friend struct QpAccess;  // core/qp*.cc
  Pd* pd_;
  QpInit init_;
  Qpn number_{};
  Qp* real_{this};
  std::atomic<std::uint8_t> port_{};
  GidReference sgid_;
  GidReference alternate_sgid_;
  std::uint64_t age_{};                 // by which the device knows it
  std::atomic<std::uint32_t> holds_{};  // for_each_qp() looks at it
  std::unique_ptr<DefaultDestination> default_destination_;
  mutable PolicyLock lock_;  // of what follows
  std::vector<std::pair<Gid, Lid>> groups_;
  IntrusiveList<Qp, OpenQpTag> opened_;  // of an XRC target: those of open_qp()
};

/// `init.capabilities` become the actual ones. InvalidArgument: attributes that do not go together,
/// or beyond the device.
Result<Qp*> create_qp(Pd& pd, QpInit& init);
/// An XRC target, which has no PD.
Result<Qp*> create_xrc_target(Device& device, QpInit& init);

/// Another handle of the XRC target QP with that number in this domain (`ib_open_qp`).
struct QpOpen {
  Qpn number{};
  ObjectEventHandler event_handler{};
  void* context{};
};
Result<Qp*> open_qp(Xrcd& xrcd, const QpOpen& open);
Result<void> close_qp(Qp& qp);

/// Attributes of one modify: those count that `mask` names. The source GIDs may be given as
/// references, or by index in the address vectors.
struct QpModify {
  verbs::QpAttributeMask mask{};
  verbs::QpAttributes attributes{};
  GidReference sgid{};
  GidReference alternate_sgid{};
};
/// Checks against the table of transitions first, where nothing has changed yet on refusal
/// (R-QP-3). PSNs count by their low 24 bits.
Result<void> modify_qp(Qp& qp, const QpModify& modify);

/// What modify set, and how the QP was made.
struct QpQuery {
  verbs::QpAttributes attributes{};
  QpInit init{};
};
Result<QpQuery> query_qp(Qp& qp, verbs::QpAttributeMask mask);

/// Busy while it is in multicast groups. Its SRQ, CQs, PD and source GIDs are free afterwards.
Result<void> destroy_qp(Qp& qp);

/// Chains; all of it, or up to `*bad`, which is the first that was refused. Any thread.
Result<void> post_send(Qp& qp, const SendWr& first, const SendWr** bad = nullptr);
Result<void> post_recv(Qp& qp, const RecvWr& first, const RecvWr** bad = nullptr);

/// UD only; a multicast GID, and a multicast LID or 0 (R-RVT-21).
Result<void> attach_multicast(Qp& qp, const Gid& gid, Lid lid);
Result<void> detach_multicast(Qp& qp, const Gid& gid, Lid lid);

/// A QP whose fields are set and then applied all together, without a mask (R-QP-2). It begins in
/// INIT as those of small polling stacks do.
struct QpFields {
  verbs::QpState state{verbs::QpState::Init};
  verbs::QpAttributes attributes{};  ///< but for the state
};
/// Takes the QP from its state to `fields.state`, one state after the other, with what each step
/// requires. The address of a UD QP becomes the destination of sends that name none, at
/// `attributes.dest_qpn` (R-QP-5).
Result<void> apply_qp_fields(Qp& qp, const QpFields& fields);

/// Calls `visit` once for each QP that exists throughout, SMI and GSI QPs of each port first; QPs
/// that come or go meanwhile may be visited or not. The QP cannot be destroyed during the call, and
/// destroying it waits for it: `visit` must not destroy any (R-RVT-19).
void for_each_qp(Device& device, const std::function<void(Qp&)>& visit);

}  // namespace weft::core
