#include "daemon/rdma_cm/channel.h"

#include <sys/socket.h>

#include <array>
#include <utility>

namespace weft::daemon {
namespace {

/// The id to which an event belongs: for a connection request, the listener.
[[nodiscard]] cm::RdmaCmId subject_of(const cm::RdmaCmEvent& event) {
  return event.type == cm::RdmaCmEventType::ConnectRequest ? event.listener : event.id;
}

[[nodiscard]] bool is_request(const cm::RdmaCmEvent& event) {
  return event.type == cm::RdmaCmEventType::ConnectRequest;
}

[[nodiscard]] bool is_written(const cm::RdmaCmEvent& event) {
  return event.type == cm::RdmaCmEventType::AddrinfoResolved ||
         event.type == cm::RdmaCmEventType::AddrinfoError ||
         event.type == cm::RdmaCmEventType::User;
}

}  // namespace

RdmaCmChannel::RdmaCmChannel(const Owner& owner, os::UniqueFd ours,
                             std::shared_ptr<const os::UniqueFd> theirs)
    : owner_(owner), ours_(std::move(ours)), theirs_(std::move(theirs)) {}

/// Keeps one octet in the socket while events are queued. A program that consumes the octet itself
/// harms only itself.
void RdmaCmChannel::show() {
  const bool is_wanted = !events_.empty();
  if (is_wanted == is_signaled_) {
    return;
  }
  std::array<std::byte, 1> octet{};
  if (is_wanted) {
    static_cast<void>(send(ours_.get(), octet.data(), octet.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  } else {
    static_cast<void>(recv(theirs_->get(), octet.data(), octet.size(), MSG_DONTWAIT));
  }
  is_signaled_ = is_wanted;
}

bool RdmaCmChannel::take(const cm::RdmaCmEvent& event) {
  if (is_written(event) && written_ >= kMostWritten) {
    return false;
  }
  if (is_request(event)) {
    if (requests_ == kMaxRequests) {
      return false;
    }
    known_.try_emplace(event.id);  // from now on the new id belongs to the program
  }
  put(event);
  show();
  return true;
}

void RdmaCmChannel::put(const cm::RdmaCmEvent& event) {
  requests_ += is_request(event) ? 1 : 0;
  written_ += is_written(event) ? 1 : 0;
  known_[subject_of(event)].waiting.push_back(++last_event_);
  events_.emplace_hint(events_.end(), last_event_, event);
}

cm::RdmaCmEvent RdmaCmChannel::extract(std::uint64_t number) {
  auto node = events_.extract(number);
  requests_ -= is_request(node.mapped()) ? 1 : 0;
  written_ -= is_written(node.mapped()) ? 1 : 0;
  return std::move(node.mapped());
}

std::optional<cm::RdmaCmEvent> RdmaCmChannel::next() {
  if (events_.empty()) {
    return std::nullopt;
  }
  cm::RdmaCmEvent event = extract(events_.begin()->first);
  Known& subject = known_.at(subject_of(event));
  subject.waiting.pop_front();  // the oldest event of the channel is also the oldest of its id
  ++subject.reported;
  if (event.group != cm::GroupId{}) {
    ++reported_of_groups_[event.group];
  }
  show();
  return event;
}

void RdmaCmChannel::add(cm::RdmaCmId id, std::uint32_t reported) { known_[id].reported = reported; }

std::vector<cm::RdmaCmId> RdmaCmChannel::ids() const {
  std::vector<cm::RdmaCmId> ids;
  ids.reserve(known_.size());
  for (const auto& [id, known] : known_) {
    ids.push_back(id);
  }
  return ids;
}

RdmaCmChannel::RemovedId RdmaCmChannel::remove(cm::RdmaCmId id) {
  RemovedId remains;
  if (const auto found = known_.extract(id)) {
    remains.reported = found.mapped().reported;
    for (const std::uint64_t number : found.mapped().waiting) {
      remains.events.push_back(extract(number));
    }
  }
  show();
  return remains;
}

void RdmaCmChannel::append(const std::vector<cm::RdmaCmEvent>& events) {
  for (const cm::RdmaCmEvent& event : events) {
    put(event);
  }
  show();
}

std::uint32_t RdmaCmChannel::forget(cm::RdmaCmId id, cm::GroupId group) {
  if (const auto found = known_.find(id); found != known_.end()) {
    std::erase_if(found->second.waiting, [&](std::uint64_t number) {
      const bool is_its = events_.at(number).group == group;
      if (is_its) {
        static_cast<void>(extract(number));
      }
      return is_its;
    });
  }
  show();
  const auto reported = reported_of_groups_.extract(group);
  return reported ? reported.mapped() : 0;
}

}  // namespace weft::daemon
