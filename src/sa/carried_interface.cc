#include "sa/carried_interface.h"

namespace weft::sa {

Gid CarriedInterface::gid() const {
  const LocalPort& port = sa_.port();
  return port.gids.empty() ? Gid{} : port.gids.front();
}

bool CarriedInterface::solicit(const IpAddress& address, Instant until, Instant /*now*/) {
  const auto [asked, is_new] = asked_.try_emplace(address, until);
  if (is_new || asked->second < until) {
    asked->second = until;
    questions_.push_back({.address = address, .until = until});
  }
  return true;
}

std::optional<CarriedInterface::Question> CarriedInterface::poll_question() {
  while (!questions_.empty()) {
    const Question question = questions_.front();
    questions_.pop_front();
    if (asked_.contains(question.address)) {  // else nobody waits for it any more
      return question;
    }
  }
  return std::nullopt;
}

void CarriedInterface::take_answer(const IpAddress& address, const Gid& gid) {
  if (gid.is_zero() || gid.is_multicast() || asked_.erase(address) == 0) {
    return;
  }
  found_.push_back({.address = address, .gid = gid});
}

}  // namespace weft::sa
