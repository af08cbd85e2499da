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

/// The XRC domains of files, which this process shares with others of its host (ibv_open_xrcd(3),
/// IBTA vol 1 annex A14), by the names that the daemon assigns. A domain exists here until its
/// program has closed it and no other process has one of its target QPs open.
///
/// Any thread, except that handle() and remove_opener() are for the control thread. Its lock
/// precedes those of XrcProxies and SharedTargets: while it is held, domains are neither opened nor
/// closed, and nothing that keeps a domain for another process is created or destroyed.
class XrcDomains {
 public:
  XrcDomains(DaemonChannel& daemon, LocalObjects& objects, XrcProxies& proxies,
             SharedTargets& targets, std::chrono::milliseconds wait_limit = kAnswerPatience)
      : daemon_(daemon),
        objects_(objects),
        proxies_(proxies),
        targets_(targets),
        questions_(wait_limit) {}

  /// Requests the domain of the file `fd` from the daemon, and waits for the response.
  [[nodiscard]] Result<hca::XrcDomain*> open(std::uint32_t hca, int fd, bool creates,
                                             bool is_exclusive);
  /// Refused (Busy) while the domain contains SRQs or target QPs of this program.
  [[nodiscard]] Result<void> close(std::uint32_t hca, hca::XrcDomain& domain);

  /// The daemon's response to open().
  void handle(const uabi::XrcDomainOpened& answer);
  /// A request for a proxy QP here by another process that has the domain open, or its notice that
  /// it has closed it.
  void handle(const uabi::XrcRelay& message);

  /// Process `peer` has closed one target QP of the domain, or all.
  void remove_opener(uabi::ProcessAddress peer, std::uint32_t domain, std::optional<Qpn> target);

  /// The daemon has ended: wakes all threads that wait for a response.
  void handle_daemon_gone() { questions_.reconsider(); }

 private:
  struct Domain {
    std::uint32_t hca{};
    hca::XrcDomain* engine{};
    bool is_left{};  // closed by the program; kept for other processes' use of its target QPs
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
