#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "base/result.h"
#include "hca/xrc.h"
#include "host/foreign/daemon_channel.h"
#include "host/foreign/local_objects.h"
#include "host/foreign/pending_requests.h"
#include "host/foreign/shared_targets.h"
#include "host/foreign/xrc_proxies.h"
#include "uabi/messages.h"

namespace weft::host {

/// The XRC domains of files that this process shares with others of its host (ibv_open_xrcd(3),
/// IBTA vol 1 annex A14), by the names that the daemon gives them. A domain lives here until its
/// program has closed it and no other process has a target QP of it open.
///
/// Owns its lock, which comes before those of XrcProxies and SharedTargets: while it is held nobody
/// opens or closes a domain, and nobody makes or ends what holds one for another process. Any
/// thread; handle() and remove_opener() are the control thread's.
class XrcDomains {
 public:
  XrcDomains(DaemonChannel& daemon, LocalObjects& objects, XrcProxies& proxies,
             SharedTargets& targets, std::chrono::milliseconds wait_limit = kAnswerPatience)
      : daemon_(daemon),
        objects_(objects),
        proxies_(proxies),
        targets_(targets),
        questions_(wait_limit) {}

  /// Asks the daemon for the domain of the file under `fd`, and waits.
  [[nodiscard]] Result<hca::XrcDomain*> open(std::uint32_t hca, int fd, bool creates,
                                             bool is_exclusive);
  /// Refused (Busy) while SRQs or target QPs of this program are in it.
  [[nodiscard]] Result<void> close(std::uint32_t hca, hca::XrcDomain& domain);

  /// The daemon's answer to open().
  void handle(const uabi::XrcDomainOpened& answer);
  /// What another process that has the domain open wants of proxy QPs here, or that it has left.
  void handle(const uabi::XrcRelay& message);

  /// That process has one target QP of the domain, or all, open no more.
  void remove_opener(uabi::ProcessAddress peer, std::uint32_t domain, std::optional<Qpn> target);

  /// The daemon has ended: who waits for its answer waits no longer.
  void handle_daemon_gone() { questions_.reconsider(); }

 private:
  struct Domain {
    std::uint32_t hca{};
    hca::XrcDomain* engine{};
    bool is_left{};  // by the program; target QPs of it stay for other processes
  };
  [[nodiscard]] Result<std::uint32_t> ask(std::uint32_t hca, int fd, bool creates,
                                          bool is_exclusive);
  void make_proxy(const uabi::XrcRelay& question);
  void close_if_unused(std::uint32_t name);

  struct Nothing {};

  DaemonChannel& daemon_;
  LocalObjects& objects_;
  XrcProxies& proxies_;
  SharedTargets& targets_;
  Questions<uabi::XrcDomainOpened, Nothing> questions_;
  std::mutex lock_;
  std::map<std::uint32_t, Domain> domains_;  // by name
};

}  // namespace weft::host
