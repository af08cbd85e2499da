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

/// The target QPs of this process in XRC domains that have a name, and who else has them open
/// (ibv_open_qp(3)). A target is where it was made, for as long as anybody has it open and that
/// process lives: its program may destroy its own handle before others do, and it is an *orphan*
/// then. Owns its lock, which may be taken with a QP's locks held, so that nothing is done under
/// it; any thread. What ends a target that other processes have open comes from the control thread.
class SharedTargets {
 public:
  /// Policy: other processes that have one target open.
  static constexpr std::size_t kMostOpeners = 1'024;

  SharedTargets(DaemonChannel& daemon, LocalObjects& objects,
                std::size_t most_openers = kMostOpeners)
      : daemon_(daemon), objects_(objects), most_openers_(most_openers) {}

  /// A new QP; one that is no target, or whose domain has no name, is left alone.
  void note(std::uint32_t hca, hca::Qp& qp);

  /// Its own program has it open no more. False: others have, and it stays.
  [[nodiscard]] bool release(const hca::Qp& qp);

  /// Its own program opens an orphan again.
  [[nodiscard]] Result<hca::Qp*> open_again(std::uint32_t domain, Qpn target);

  /// Opens, changes or reads a target for another process, which is told what came of it. Not of
  /// Close.
  [[nodiscard]] uabi::XrcTargetAnswer answer(const uabi::XrcTargetRequest& question);

  /// That process has the target, or all of the domain, open no more. Returns those that nobody has
  /// open now: they are destroyed by who calls.
  struct Left {
    std::uint32_t hca{};
    hca::Qp* qp{};
  };
  [[nodiscard]] std::vector<Left> remove_opener(uabi::ProcessAddress peer, std::uint32_t domain,
                                                std::optional<Qpn> target);

  /// Whoever has the event's QP open hears of it. With the locks of the QP held.
  void notify_openers(const hca::AsyncEvent& event);

  /// Targets of the domain that only other processes have open.
  [[nodiscard]] std::size_t orphans_of(std::uint32_t domain) const;

 private:
  struct Target {
    hca::Qp* qp{};
    std::uint32_t hca{};
    std::uint32_t domain{};
    std::set<uabi::ProcessAddress> others;  // that have it open
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
