#include "host/foreign/xrc_proxies.h"

#include <algorithm>

namespace weft::host {

uabi::XrcRelay XrcProxies::make(const uabi::XrcRelay& question, std::uint32_t self,
                                std::uint32_t hca, hca::XrcDomain& domain) {
  const std::lock_guard guard{lock_};
  end([&](const Proxy& proxy) {
    return proxy.domain == question.domain && proxy.home == question.peer &&
           proxy.target == question.target && proxy.is_for_reads == question.is_for_reads;
  });
  uabi::XrcRelay answer = question;
  answer.action = uabi::XrcMessage::NoProxy;
  if (proxies_.size() >= most_) {
    return answer;
  }
  const auto qp =
      objects_.engine(hca).create_proxy(domain, {
                                                    .slot = self,
                                                    .serial = question.serial,
                                                    .domain = question.domain,
                                                    .is_for_reads = question.is_for_reads,
                                                    .of = {.target = question.target,
                                                           .source = question.source,
                                                           .slid = question.slid,
                                                           .sl = question.sl},
                                                    .port = question.port,
                                                    .pkey_index = question.pkey_index,
                                                    .path_mtu = question.path_mtu,
                                                    .min_rnr_timer = question.min_rnr_timer
  });
  if (!qp) {
    return answer;
  }
  objects_.carry_for_proxy(hca, **qp);
  proxies_.push_back({.domain = question.domain,
                      .hca = hca,
                      .home = question.peer,
                      .target = question.target,
                      .is_for_reads = question.is_for_reads,
                      .qp = *qp});
  answer.action = uabi::XrcMessage::Proxy;
  answer.proxy = (*qp)->number();
  return answer;
}

void XrcProxies::end_of_target(std::uint32_t domain, uabi::ProcessAddress home, Qpn target) {
  const std::lock_guard guard{lock_};
  end([&](const Proxy& proxy) {
    return proxy.domain == domain && proxy.home == home && proxy.target == target;
  });
}

void XrcProxies::end_of_process(std::uint32_t domain, uabi::ProcessAddress home) {
  const std::lock_guard guard{lock_};
  end([&](const Proxy& proxy) { return proxy.domain == domain && proxy.home == home; });
}

void XrcProxies::end_of_domain(std::uint32_t domain) {
  const std::lock_guard guard{lock_};
  end([&](const Proxy& proxy) { return proxy.domain == domain; });
}

std::size_t XrcProxies::count(std::uint32_t domain) const {
  const std::lock_guard guard{lock_};
  return static_cast<std::size_t>(std::ranges::count(proxies_, domain, &Proxy::domain));
}

/// The receive in progress is flushed. Caller must hold the lock.
template <class Which>
void XrcProxies::end(Which which) {
  hca::QpAttributes error;
  error.state = hca::QpState::Err;
  std::erase_if(proxies_, [&](const Proxy& proxy) {
    if (!which(proxy)) {
      return false;
    }
    static_cast<void>(proxy.qp->modify(error, hca::QpAttribute::State));
    static_cast<void>(objects_.destroy_qp(proxy.hca, *proxy.qp));
    return true;
  });
}

}  // namespace weft::host
