#include "daemon/namespaces/host_makers.h"

#include <algorithm>

namespace weft::daemon {

bool HostMakers::take(fabric::NodeIndex host, Client& client, Instant now) {
  auto [at, is_first] =
      makings_.try_emplace(host, Making{.maker = &client, .since = now, .waiting = {}});
  Making& making = at->second;
  if (is_first || making.maker == &client) {
    return true;
  }
  if (now - making.since >= kTurn) {
    std::erase(making.waiting, &client);
    making.maker = &client;
    making.since = now;
    return true;
  }
  if (std::ranges::find(making.waiting, &client) == making.waiting.end()) {
    making.waiting.push_back(&client);
  }
  return false;
}

Client* HostMakers::next(Making& making) {
  Client* const first = making.waiting.empty() ? nullptr : making.waiting.front();
  std::erase(making.waiting, first);
  return first;
}

Client* HostMakers::finish(fabric::NodeIndex host) {
  const auto made = makings_.find(host);
  if (made == makings_.end()) {
    return nullptr;
  }
  Client* const waiting = next(made->second);
  if (waiting == nullptr) {
    makings_.erase(made);
  }
  return waiting;
}

std::optional<HostMakers::Turn> HostMakers::leave(const Client& client, Instant now) {
  for (auto at = makings_.begin(); at != makings_.end();) {
    auto& [host, making] = *at;
    std::erase(making.waiting, &client);
    if (making.maker != &client) {
      ++at;
    } else if (Client* const maker = next(making); maker != nullptr) {
      making.maker = maker;
      making.since = now;
      return Turn{.host = host, .maker = maker};
    } else {
      at = makings_.erase(at);
    }
  }
  return std::nullopt;
}

}  // namespace weft::daemon
