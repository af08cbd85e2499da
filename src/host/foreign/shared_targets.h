#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "base/identifiers.h"
#include "base/result.h"
#include "hca/events.h"
#include "host/foreign/daemon_channel.h"
#include "host/foreign/local_objects.h"
#include "uabi/messages.h"

namespace weft::host {

/// The target QPs of this process in named XRC domains, and the processes that have them open
/// (ibv_open_qp(3)). A target stays in the process that created it, as long as any process has it
/// open and its own lives: its program may destroy its own handle before others do, which makes the
/// target an *orphan*. Any thread; it has its own lock, an innermost one that may be taken with a
/// QP's locks held. Only the control thread destroys targets that other processes had open.
class SharedTargets {
 public:
  /// Policy: processes that may have one target open.
  static constexpr std::size_t kMostOpeners = 1'024;

  SharedTargets(DaemonChannel& daemon, LocalObjects& objects,
                std::size_t most_openers = kMostOpeners)
      : daemon_(daemon), objects_(objects), most_openers_(most_openers) {}

  /// Registers a new QP; ignores those that are no targets, or whose domain has no name.
  void note(std::uint32_t hca, hca::Qp& qp);

  /// Its own program closes the target. False if others have it open, so that it stays.
  [[nodiscard]] bool release(const hca::Qp& qp);

  /// Its own program opens an orphan again.
  [[nodiscard]] Result<hca::Qp*> open_again(std::uint32_t domain, Qpn target);

  /// Handles a request to open, modify or query a target, and returns the response. Close is
  /// handled by remove_opener().
  [[nodiscard]] uabi::XrcTargetAnswer answer(const uabi::XrcTargetRequest& question);

  /// Process `peer` has closed the target, or all of the domain. Returns the targets that no
  /// process has open any more, which the caller must destroy.
  struct Left {
    std::uint32_t hca{};
    hca::Qp* qp{};
  };
  [[nodiscard]] std::vector<Left> remove_opener(uabi::ProcessAddress peer, std::uint32_t domain,
                                                std::optional<Qpn> target);

  /// Notifies the processes that have the event's QP open. Called with the QP's locks held.
  void notify_openers(const hca::AsyncEvent& event);

  /// Number of the domain's targets that only other processes have open.
  [[nodiscard]] std::size_t orphans_of(std::uint32_t domain) const;

 private:
  struct Target {
    hca::Qp* qp{};
    std::uint32_t hca{};
    std::uint32_t domain{};
    std::set<uabi::ProcessAddress> others;  // processes that have it open
    bool is_orphan{};
  };
  [[nodiscard]] Result<hca::Qp*> target_for(const uabi::XrcTargetRequest& question);

  DaemonChannel& daemon_;
  LocalObjects& objects_;
  const std::size_t most_openers_;
  mutable std::mutex lock_;
  std::vector<Target> targets_;
};

}  // namespace weft::host
