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

/// Target QPs of other processes that this one has open (ibv_open_qp(3)): their processes are asked
/// and tell of events, through the daemon. Owns its lock; any thread, handle() and lose() are the
/// control thread's.
class ForeignTargets {
 public:
  ForeignTargets(DaemonChannel& daemon, ProcessEvents& events,
                 std::chrono::milliseconds wait_limit = kAnswerPatience)
      : daemon_(daemon), events_(events), questions_(wait_limit) {}

  /// One more handle; its process is asked, and this thread waits.
  [[nodiscard]] Result<void> open(std::uint32_t domain, Qpn target);
  /// One less; its process is told of the last.
  void close(std::uint32_t domain, Qpn target);
  [[nodiscard]] Result<void> modify(std::uint32_t domain, Qpn target,
                                    const hca::QpAttributes& attributes, hca::QpAttributeMask mask);
  /// Of a target whose process is gone, the error state is what there is to say.
  [[nodiscard]] Result<hca::QpAttributes> query(std::uint32_t domain, Qpn target);

  /// Foreign: only the process that has the target may speak for it.
  void handle(const uabi::XrcTargetAnswer& answer);
  void handle(const uabi::XrcTargetEvent& message);

  /// The process is gone, or has left the domain, and its targets with it.
  void lose(uabi::ProcessAddress peer, std::uint32_t domain);

  /// The daemon has ended: who waits for an answer waits no longer.
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
  std::map<Name, std::uint32_t> handles_;  // how many this program has of each
};

}  // namespace weft::host
