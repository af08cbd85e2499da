#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/identifiers.h"
#include "hca/xrc.h"
#include "host/foreign/local_objects.h"
#include "uabi/messages.h"

namespace weft::host {

/// The proxy QPs of this process. Each represents a target QP of another process of the host, and
/// performs the part of a request that concerns memory and SRQs of this process (hca/xrc_relay.h;
/// IBTA vol 1 annex A14). Any thread; its lock is held while proxy QPs are created and destroyed.
class XrcProxies {
 public:
  /// Policy: total for the targets of all other processes.
  static constexpr std::size_t kMost = 4'096;

  explicit XrcProxies(LocalObjects& objects, std::size_t most = kMost)
      : objects_(objects), most_(most) {}

  /// Creates a proxy QP in the domain, in place of the one that the target had here before: a
  /// target has one for READs and one for everything else, for its newest connection. Returns the
  /// response, which may be a refusal. `self` is this process's slot.
  [[nodiscard]] uabi::XrcRelay make(const uabi::XrcRelay& question, std::uint32_t self,
                                    std::uint32_t hca, hca::XrcDomain& domain);

  /// Destroys the proxy QPs of one target, of all targets of a process, or of a domain; receives in
  /// progress are flushed.
  void end_of_target(std::uint32_t domain, uabi::ProcessAddress home, Qpn target);
  void end_of_process(std::uint32_t domain, uabi::ProcessAddress home);
  void end_of_domain(std::uint32_t domain);

  /// Number of proxies in the domain.
  [[nodiscard]] std::size_t count(std::uint32_t domain) const;

 private:
  struct Proxy {
    std::uint32_t domain{};
    std::uint32_t hca{};
    uabi::ProcessAddress home;  // process of the target
    Qpn target;
    bool is_for_reads{};
    hca::Qp* qp{};
  };
  template <class Which>
  void end(Which which);

  LocalObjects& objects_;
  const std::size_t most_;
  mutable std::mutex lock_;
  std::vector<Proxy> proxies_;
};

}  // namespace weft::host
