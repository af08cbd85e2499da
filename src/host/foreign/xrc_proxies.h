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

/// The proxy QPs of this process: each stands for a target QP of another process of the host, and
/// does for it what a request does to memory and SRQs here (hca/xrc_relay.h; IBTA vol 1 annex A14).
/// Owns its lock, under which proxy QPs are made and destroyed; any thread.
class XrcProxies {
 public:
  /// Policy: of all other processes' target QPs together.
  static constexpr std::size_t kMost = 4'096;

  explicit XrcProxies(LocalObjects& objects, std::size_t most = kMost)
      : objects_(objects), most_(most) {}

  /// A new proxy QP in the domain for who asks, instead of the one that the target had here: it has
  /// one for READs and one for all else, which are its newest connection's. Returns the answer,
  /// which may be that there is none. `self` is this process's slot.
  [[nodiscard]] uabi::XrcRelay make(const uabi::XrcRelay& question, std::uint32_t self,
                                    std::uint32_t hca, hca::XrcDomain& domain);

  /// Proxy QPs of one target, of all targets of a process, of a whole domain: their receive under
  /// way is flushed, and they go.
  void end_of_target(std::uint32_t domain, uabi::ProcessAddress home, Qpn target);
  void end_of_process(std::uint32_t domain, uabi::ProcessAddress home);
  void end_of_domain(std::uint32_t domain);

  /// How many there are in the domain.
  [[nodiscard]] std::size_t count(std::uint32_t domain) const;

 private:
  struct Proxy {
    std::uint32_t domain{};
    std::uint32_t hca{};
    uabi::ProcessAddress home;  // of the target
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
