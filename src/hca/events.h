#pragma once

#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "base/time.h"
#include "hca/types.h"
#include "wire/encodings.h"

namespace weft::hca {

class CompletionQueue;
class SharedReceiveQueue;
class Qp;

/// An asynchronous event (IBTA vol 1 §11.6.3). At most one of the objects is set; port events name
/// the port.
struct AsyncEvent {
  AsyncEventType type{};
  Qp* qp{};
  CompletionQueue* cq{};
  SharedReceiveQueue* srq{};
  PortNumber port;
};

/// A packet that a QP dropped for its P_Key or its Q_Key (IBTA vol 1 §9.6.1.1, §10.2.4, §10.9.4):
/// what PortInfo counts of the port, and traps 257 and 258 tell of (§14.2.5.1).
struct BadKey {
  enum class Kind : std::uint8_t { PKey, QKey };

  Kind kind{};
  PortNumber port;
  Lid source;
  Lid destination;
  ServiceLevel sl;
  Qpn source_qp;  ///< 0: a connection's packet, which does not name it
  Qpn destination_qp;
  Gid source_gid;  ///< zero: the packet has no GRH
  std::uint32_t key{};
};

/// Of whom a proxy takes the place (hca/xrc_relay.h): what its completions name.
struct XrcProxyFor {
  Qpn target;
  Qpn source;  ///< the initiator
  Lid slid;
  ServiceLevel sl;
};

/// A target QP needs a proxy in the process `slot` of its host; Qp::handle_proxy answers, with
/// `serial`. The proxy's connection begins with PSN 0.
struct XrcProxyRequest {
  std::uint32_t slot{};
  std::uint32_t serial{};
  std::uint32_t domain{};  // its name
  bool is_for_reads{};     // a target has one for them, and one for all else
  XrcProxyFor of;
  PortNumber port;
  std::uint16_t pkey_index{};
  wire::Mtu path_mtu{};
  std::uint8_t min_rnr_timer{};
};

/// What an HCA tells its driver. Called with the lock of the object concerned held: record it and
/// return; never call back.
class HcaEvents {
 public:
  virtual ~HcaEvents() = default;

  /// An armed CQ received a completion that it was armed for (the arm is used up).
  virtual void completion_event(CompletionQueue& cq) = 0;

  /// An armed CQ holds its event back for more completions: CompletionQueue::end_period() is due
  /// after that time. Later calls replace it. For drivers that moderate CQs.
  virtual void completion_event_held(CompletionQueue& /*cq*/, Duration /*period*/) {}

  virtual void async_event(const AsyncEvent& event) = 0;

  /// A packet with a wrong key was dropped: of any sender, as often as it likes.
  virtual void bad_key(const BadKey& /*bad*/) {}

  /// For drivers whose processes share XRC domains (hca/xrc_relay.h). The second: none of the
  /// target's proxies is needed any more.
  virtual void xrc_proxy_requested(const XrcProxyRequest& /*request*/) {}
  virtual void xrc_proxies_released(std::uint32_t /*domain*/, Qpn /*target*/) {}

  /// Whether reasons of error completions are wanted (WEFT_EXPLAIN=1); asked before any text is
  /// made.
  [[nodiscard]] virtual bool explains_errors() const = 0;
  virtual void explain(std::string_view reason) = 0;
};

}  // namespace weft::hca
