#include "ulp/srp/target.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "ulp/srp/planted_bug.h"

namespace weft::srp {

Target::~Target() {
  collect();
  WEFT_ASSERT(channels_.empty(), "ports are released before a target goes");
}

Result<void> Target::add_port(const PortOptions& options) {
  if (options.request_limit < 2 || options.max_rsp_size <= wire::kSizeOf<wire::SrpRsp> ||
      options.max_initiator_iu < kMinRequestIu) {
    return fail(ErrorCode::InvalidArgument,
                "a port needs 2 credits, {} octets for requests, and more than {} for responses",
                kMinRequestIu, wire::kSizeOf<wire::SrpRsp>);
  }
  if (!ports_.try_emplace(options.name, Port{.options = options}).second) {
    return fail(ErrorCode::Exists, "there is a port '{}'", options.name);
  }
  return {};
}

Result<Target::Port*> Target::find(const std::string& port) {
  const auto found = ports_.find(port);
  if (found == ports_.end()) {
    return fail(ErrorCode::NotFound, "there is no port '{}'", port);
  }
  return &found->second;
}

Result<void> Target::set_enabled(const std::string& port, bool enabled) {
  const auto found = find(port);
  if (!found) {
    return std::unexpected(found.error());
  }
  (*found)->enabled = enabled;
  return {};
}

bool Target::Port::has_name(const wire::SrpPortId& name) const {
  return name == options.target_port || std::ranges::find(names, name) != names.end();
}

std::optional<GroupTag> Target::Port::group_of(const Initiator& initiator) const {
  for (const auto& [tag, group] : groups) {
    if (group.enabled && group.access.allows(initiator)) {
      return tag;
    }
  }
  return std::nullopt;
}

Result<TargetGroup*> Target::find(const std::string& port, GroupTag tag) {
  const auto found = find(port);
  if (!found) {
    return std::unexpected(found.error());
  }
  const auto group = (*found)->groups.find(tag);
  if (group == (*found)->groups.end()) {
    return fail(ErrorCode::NotFound, "port '{}' has no group {}", port, tag);
  }
  return &group->second;
}

Result<void> Target::add_name(const std::string& port, const wire::SrpPortId& name) {
  const auto found = find(port);
  if (!found) {
    return std::unexpected(found.error());
  }
  if ((*found)->has_name(name)) {
    return fail(ErrorCode::Exists, "port '{}' has the identifier {}", port, to_string(name));
  }
  (*found)->names.push_back(name);
  return {};
}

Result<void> Target::add_group(const std::string& port, GroupTag tag) {
  const auto found = find(port);
  if (!found) {
    return std::unexpected(found.error());
  }
  if (!(*found)->groups.try_emplace(tag).second) {
    return fail(ErrorCode::Exists, "port '{}' has a group {}", port, tag);
  }
  return {};
}

Result<void> Target::set_group_enabled(const std::string& port, GroupTag tag, bool enabled) {
  const auto found = find(port, tag);
  if (!found) {
    return std::unexpected(found.error());
  }
  (*found)->enabled = enabled;
  return {};
}

Result<void> Target::remove_group(const std::string& port, GroupTag tag,
                                  std::function<void()> done) {
  if (const auto found = find(port, tag); !found) {
    return std::unexpected(found.error());
  }
  (*find(port))->groups.erase(tag);
  end_strangers(port, std::move(done));
  return {};
}

Result<void> Target::allow(const std::string& port, const AccessName& name, GroupTag tag) {
  const auto found = find(port, tag);
  return found ? (*found)->access.allow(name) : Result<void>{std::unexpected(found.error())};
}

Result<void> Target::allow_anybody(const std::string& port, bool anybody, GroupTag tag) {
  const auto found = find(port, tag);
  if (!found) {
    return std::unexpected(found.error());
  }
  (*found)->access.allow_anybody(anybody);
  return {};
}

Result<void> Target::withdraw(const std::string& port, const AccessName& name,
                              std::function<void()> done, GroupTag tag) {
  const auto found = find(port, tag);
  if (!found) {
    return std::unexpected(found.error());
  }
  if (auto taken = (*found)->access.withdraw(name); !taken) {
    return taken;
  }
  end_strangers(port, std::move(done));
  return {};
}

void Target::end_strangers(const std::string& port, std::function<void()> done) {
  std::vector<ChannelId> ended;
  for (auto& [id, session] : channels_) {
    const auto group = find(session.port, session.group);
    if (session.port == port && (!group || !(*group)->access.allows(session.initiator))) {
      ended.push_back(id);
    }
  }
  for (const ChannelId id : ended) {
    channels_.at(id).channel->close();
  }
  wait_for(std::move(ended), std::move(done));
}

Result<void> Target::release_port(const std::string& port, std::function<void()> done) {
  if (auto disabled = set_enabled(port, false); !disabled) {
    return disabled;
  }
  std::vector<ChannelId> ended;
  for (auto& [id, session] : channels_) {
    if (session.port == port) {
      ended.push_back(id);
    }
  }
  for (const ChannelId id : ended) {
    channels_.at(id).channel->close();
  }
  wait_for(std::move(ended), std::move(done));
  return {};
}

void Target::wait_for(std::vector<ChannelId> channels, std::function<void()> done) {
  std::erase_if(channels, [this](ChannelId id) {
    const auto found = channels_.find(id);
    return found == channels_.end() || found->second.channel->is_released();
  });
  if (channels.empty()) {
    done();
  } else {
    waiters_.push_back({std::move(channels), std::move(done)});
  }
}

void Target::handle_nexus_closed(Channel& channel) {
  const ChannelId id = channel.id();
  const auto own = channels_.find(id);
  if (own != channels_.end()) {
    own->second.nexus_closed = true;
  }
  for (auto& [other, session] : channels_) {
    if (std::erase(session.predecessors, id) != 0) {
      accept_if_due(session);
    }
  }
}

/// Units have the same number at every port.
void Target::abort_fetches(Channel& channel, std::uint64_t lun,
                           const std::shared_ptr<PendingManagement>& pending) {
  for (const auto& [id, session] : channels_) {
    if (session.channel.get() != &channel) {
      session.channel->abort_fetches(lun, pending);
    }
  }
}

void Target::handle_released(Channel& channel) {
  std::vector<std::function<void()>> due;
  for (Waiter& waiter : waiters_) {
    if (std::erase(waiter.channels, channel.id()) != 0 && waiter.channels.empty()) {
      due.push_back(std::move(waiter.done));
    }
  }
  std::erase_if(waiters_, [](const Waiter& waiter) { return waiter.channels.empty(); });
  for (const auto& done : due) {
    done();
  }
}

void Target::accept_if_due(Session& session) {
  const bool waits = !session.predecessors.empty() && !planted(PlantedBug::OldNexusNotAwaited);
  if (waits || session.login_rsp.empty() || session.channel->state() >= ChannelState::Draining) {
    return;
  }
  session.connection->accept(session.login_rsp);
  session.login_rsp.clear();
}

Channel* Target::channel(ChannelId id) {
  const auto found = channels_.find(id);
  return found == channels_.end() || found->second.channel->is_released()
             ? nullptr
             : found->second.channel.get();
}

void Target::collect() {
  std::erase_if(channels_, [this](const auto& one) {
    const bool is_over = one.second.channel->is_released();
    if (is_over) {
      counters_.channels += one.second.channel->counters();
    }
    return is_over;
  });
}

std::size_t Target::channels_of(const std::string& port) const {
  return static_cast<std::size_t>(std::ranges::count_if(channels_, [&](const auto& one) {
    return one.second.port == port && !one.second.channel->is_released();
  }));
}

std::vector<ChannelId> Target::channel_ids() const {
  std::vector<ChannelId> ids;
  for (const auto& [id, session] : channels_) {
    if (!session.channel->is_released()) {
      ids.push_back(id);
    }
  }
  return ids;
}

std::vector<ChannelStatus> Target::channel_status() const {
  std::vector<ChannelStatus> all;
  for (const auto& [id, session] : channels_) {
    const Channel& channel = *session.channel;
    if (!channel.is_released()) {
      all.push_back({.id = id,
                     .group = session.group,
                     .port = session.port,
                     .initiator = session.initiator,
                     .state = channel.state(),
                     .limit = channel.request_limit().limit(),
                     .credits = channel.request_limit().available(),
                     .outstanding = channel.request_limit().outstanding(),
                     .waiting = channel.waiting(),
                     .counters = channel.counters()});
    }
  }
  return all;
}

TargetCounters Target::counters() const {
  TargetCounters sum = counters_;
  for (const auto& [id, session] : channels_) {
    sum.channels += session.channel->counters();
  }
  return sum;
}

void Target::check_invariants() const {
  for (const auto& [id, session] : channels_) {
    session.channel->check_invariants();
  }
}

}  // namespace weft::srp
