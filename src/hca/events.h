#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/identifiers.h"
#include "base/time.h"
#include "hca/types.h"
#include "verbs/mtu.h"

namespace weft::hca {

class CompletionQueue;
class SharedReceiveQueue;
class Qp;
struct PlaceableMemory;

/// An asynchronous event (IBTA vol 1 §11.6.3). At most one object pointer is set; port events set
/// `port` instead.
struct AsyncEvent {
  AsyncEventType type{};
  Qp* qp{};
  CompletionQueue* cq{};
  SharedReceiveQueue* srq{};
  PortNumber port;
};

/// A packet that a QP dropped because of its P_Key or Q_Key (IBTA vol 1 §9.6.1.1, §10.2.4,
/// §10.9.4). PortInfo counts these for the port, and traps 257 and 258 report them (§14.2.5.1).
struct BadKey {
  enum class Kind : std::uint8_t { PKey, QKey };

  Kind kind{};
  PortNumber port;
  Lid source;
  Lid destination;
  ServiceLevel sl;
  Qpn source_qp;  ///< 0 for a connected QP's packet, which does not carry it
  Qpn destination_qp;
  Gid source_gid;  ///< zero if the packet has no GRH
  std::uint32_t key{};
};

/// The connection on whose behalf a proxy QP receives (hca/xrc_relay.h); its completions carry
/// these numbers.
struct XrcProxyFor {
  Qpn target;
  Qpn source;  ///< the XRC initiator QP
  Lid slid;
  ServiceLevel sl;
};

/// Request for a proxy QP in process `slot` of the target QP's host. The driver answers through
/// Qp::handle_proxy with the same `serial`. The proxy's connection starts at PSN 0.
struct XrcProxyRequest {
  std::uint32_t slot{};
  std::uint32_t serial{};
  std::uint32_t domain{};  // name of the XRC domain, XrcDomain::name
  bool is_for_reads{};  // a target has one proxy per process for READs and one for everything else
  XrcProxyFor of;
  PortNumber port;
  std::uint16_t pkey_index{};
  verbs::Mtu path_mtu{};
  std::uint8_t min_rnr_timer{};
};

/// Notifications from an HCA to its driver. They arrive with the lock of the object concerned held,
/// on whichever thread made the call that caused them: record the notification and return, and
/// never call back into the HCA.
class HcaEvents {
 public:
  virtual ~HcaEvents() = default;

  /// An armed CQ received a completion that satisfies its arm, which is now consumed.
  virtual void completion_event(CompletionQueue& cq) = 0;

  /// An armed CQ delays its event to coalesce completions: the driver must call
  /// CompletionQueue::end_period() after `period`. A later call replaces an earlier one. Only
  /// drivers that offer CQ moderation need this.
  virtual void completion_event_held(CompletionQueue& /*cq*/, Duration /*period*/) {}

  /// An asynchronous event occurred; see AsyncEventType.
  virtual void async_event(const AsyncEvent& event) = 0;

  /// A packet with an invalid key was dropped. Any sender can cause this at any rate, so a driver
  /// must limit what it does about it.
  virtual void bad_key(const BadKey& /*bad*/) {}

  /// For drivers whose processes share XRC domains (hca/xrc_relay.h): the target QP needs a proxy
  /// in another process.
  virtual void xrc_proxy_requested(const XrcProxyRequest& /*request*/) {}
  /// The target QP no longer needs any of its proxies.
  virtual void xrc_proxies_released(std::uint32_t /*domain*/, Qpn /*target*/) {}

  // Direct placement (hca/placement.h), for drivers whose peers can reach this process's memory.

  /// Asked before the QP's peer is granted anything: names the time at which its request was
  /// checked. Nothing if the peer places nothing.
  [[nodiscard]] virtual std::optional<std::uint64_t> placement_epoch(Qp& /*qp*/) {
    return std::nullopt;
  }
  /// The peer may reach this memory until the next withdrawal. No effect if there was one since
  /// `epoch`.
  virtual void grant_placement(Qp& /*qp*/, std::uint64_t /*epoch*/,
                               const PlaceableMemory& /*memory*/) {}
  /// Withdraws all that was granted: a key, a region or a QP changes. Returns when no peer reaches
  /// this process's memory any more. The one call here that waits, for as long as a peer's copy
  /// takes.
  virtual void withdraw_placement() {}
  /// A region that had been granted (PlaceableMemory::region) is no more.
  virtual void forget_placeable(const void* /*region*/) {}

  /// True if the driver wants reasons for error completions (WEFT_EXPLAIN=1). Checked before a
  /// reason is formatted.
  [[nodiscard]] virtual bool explains_errors() const = 0;
  /// A reason for an error completion or event, for the user.
  virtual void explain(std::string_view reason) = 0;
};

}  // namespace weft::hca
