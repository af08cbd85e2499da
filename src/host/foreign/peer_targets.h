#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "base/identifiers.h"
#include "base/result.h"
#include "hca/types.h"
#include "host/foreign/daemon_channel.h"
#include "host/foreign/pending_requests.h"
#include "host/process.h"
#include "uabi/messages.h"

namespace weft::host {

/// Target QPs of other processes that this process has open (ibv_open_qp(3)): sends requests to
/// their processes, and receives their events, through the daemon. Any thread, except that handle()
/// and lose() are for the control thread; it has its own lock.
class ForeignTargets {
 public:
  ForeignTargets(DaemonChannel& daemon, ProcessEvents& events,
                 std::chrono::milliseconds wait_limit = kAnswerPatience)
      : daemon_(daemon), events_(events), questions_(wait_limit) {}

  /// Opens one more handle: sends a request to the QP's process and waits for the response.
  [[nodiscard]] Result<void> open(std::uint32_t domain, Qpn target);
  /// Closes a handle; notifies the QP's process of the last.
  void close(std::uint32_t domain, Qpn target);
  /// Modifies the target in its process, and waits for the outcome.
  [[nodiscard]] Result<void> modify(std::uint32_t domain, Qpn target,
                                    const hca::QpAttributes& attributes, hca::QpAttributeMask mask);
  /// If the QP's process is gone, reports the error state.
  [[nodiscard]] Result<hca::QpAttributes> query(std::uint32_t domain, Qpn target);

  /// Messages of other processes, untrusted: accepted only from the process of the target.
  void handle(const uabi::XrcTargetAnswer& answer);
  void handle(const uabi::XrcTargetEvent& message);

  /// The process is gone or has closed the domain, and its targets are gone with it.
  void lose(uabi::ProcessAddress peer, std::uint32_t domain);

  /// The daemon has ended: wakes all threads that wait for a response.
  void handle_daemon_gone() { questions_.reconsider(); }

 private:
  struct About {
    uabi::ProcessAddress peer;
    std::uint32_t domain{};
  };
  using Name = std::pair<std::uint32_t, std::uint32_t>;  // domain and QPN

  [[nodiscard]] Result<uabi::XrcTargetAnswer> ask(uabi::XrcTargetRequest question);
  [[nodiscard]] uabi::ProcessAddress home_of(Qpn target) const;

  DaemonChannel& daemon_;
  ProcessEvents& events_;
  Questions<uabi::XrcTargetAnswer, About> questions_;
  std::mutex lock_;
  std::map<Name, std::uint32_t> handles_;  // open handles of each target
};

}  // namespace weft::host
