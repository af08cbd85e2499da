#include "daemon/rdma_cm/channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

namespace weft::daemon {
namespace {

/// Whose event it is: of a connection request the listener's.
[[nodiscard]] cm::RdmaCmId subject_of(const cm::RdmaCmEvent& event) {
  return event.type == cm::RdmaCmEventType::ConnectRequest ? event.listener : event.id;
}

}  // namespace

RdmaCmChannel::RdmaCmChannel(const Owner& owner, host::UniqueFd ours,
                             std::shared_ptr<const host::UniqueFd> theirs)
    : owner_(owner), ours_(std::move(ours)), theirs_(std::move(theirs)) {}

/// One octet in the socket while there are events. The program could take it out itself, which
/// costs nobody but the program.
void RdmaCmChannel::show() {
  const bool is_wanted = !events_.empty();
  if (is_wanted == is_shown_) {
    return;
  }
  std::array<std::byte, 1> octet{};
  if (is_wanted) {
    static_cast<void>(send(ours_.get(), octet.data(), octet.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  } else {
    static_cast<void>(recv(theirs_->get(), octet.data(), octet.size(), MSG_DONTWAIT));
  }
  is_shown_ = is_wanted;
}

bool RdmaCmChannel::take(const cm::RdmaCmEvent& event) {
  if (event.type == cm::RdmaCmEventType::ConnectRequest) {
    if (requests_ == kMostRequests) {
      return false;
    }
    ++requests_;
    told_.emplace(event.id, 0);  // the new id is the program's from now on
  }
  events_.push_back(event);
  show();
  return true;
}

std::optional<cm::RdmaCmEvent> RdmaCmChannel::next() {
  if (events_.empty()) {
    return std::nullopt;
  }
  cm::RdmaCmEvent event = std::move(events_.front());
  events_.pop_front();
  if (event.type == cm::RdmaCmEventType::ConnectRequest) {
    --requests_;
  }
  ++told_[subject_of(event)];
  if (event.group != cm::GroupId{}) {
    ++told_of_groups_[event.group];
  }
  show();
  return event;
}

void RdmaCmChannel::add(cm::RdmaCmId id, std::uint32_t told) { told_[id] = told; }

std::vector<cm::RdmaCmId> RdmaCmChannel::ids() const {
  std::vector<cm::RdmaCmId> ids;
  ids.reserve(told_.size());
  for (const auto& [id, told] : told_) {
    ids.push_back(id);
  }
  return ids;
}

RdmaCmChannel::Remains RdmaCmChannel::remove(cm::RdmaCmId id) {
  Remains remains;
  if (const auto found = told_.extract(id)) {
    remains.told = found.mapped();
  }
  const auto is_its = [id](const cm::RdmaCmEvent& event) { return subject_of(event) == id; };
  std::ranges::copy_if(events_, std::back_inserter(remains.events), is_its);
  std::erase_if(events_, is_its);
  requests_ -= static_cast<std::size_t>(std::ranges::count(
      remains.events, cm::RdmaCmEventType::ConnectRequest, &cm::RdmaCmEvent::type));
  show();
  return remains;
}

void RdmaCmChannel::append(const std::vector<cm::RdmaCmEvent>& events) {
  for (const cm::RdmaCmEvent& event : events) {
    if (event.type == cm::RdmaCmEventType::ConnectRequest) {
      ++requests_;
    }
    events_.push_back(event);
  }
  show();
}

std::uint32_t RdmaCmChannel::forget(cm::GroupId group) {
  std::erase_if(events_, [group](const cm::RdmaCmEvent& event) { return event.group == group; });
  show();
  const auto told = told_of_groups_.extract(group);
  return told ? told.mapped() : 0;
}

}  // namespace weft::daemon
