#include "sa/resolver.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace weft::sa {
namespace {

[[nodiscard]] std::unexpected<ResolutionError> resolution_error(ResolutionFailure failure,
                                                                std::string reason) {
  return std::unexpected(ResolutionError{.failure = failure, .reason = std::move(reason)});
}

/// True for addresses that every host uses for itself, whatever other addresses in 127/8 its ports
/// have: 127.0.0.0/16, which distributions use for the host name, and ::1.
[[nodiscard]] bool is_any_host_itself(const IpAddress& address) {
  constexpr std::uint8_t kPrefixBits = 16;
  return address.is_loopback() &&
         (address.is_v6() ||
          InterfaceAddress{IpAddress::v4(0x7F00'0000), kPrefixBits}.covers(address));
}

}  // namespace

Resolver::Resolver(const ResolverOptions& options, std::function<void()> on_due)
    : options_(options), on_due_(on_due ? std::move(on_due) : [] {}) {}

Resolver::~Resolver() {
  for (const auto& [id, asked] : asked_) {
    address_source_->cancel(asked.question);
  }
}

Result<void> Resolver::add_interface(const InterfaceKey& key, Qpn qpn, SaClient& sa,
                                     std::vector<InterfaceAddress> addresses, Instant now) {
  if (interfaces_.size() >= options_.limits.interfaces) {
    return fail(ErrorCode::OutOfMemory, "a host has at most {} interfaces",
                options_.limits.interfaces);
  }
  if (interface(key) != nullptr) {
    return fail(ErrorCode::Exists, "the port has an interface of partition {:#06x} already",
                key.pkey.value());
  }
  for (const InterfaceAddress& address : addresses) {
    if (interface_with(address.address) != nullptr) {
      return fail(ErrorCode::Exists, "another interface of the host has the address {}",
                  to_string(address.address));
    }
  }
  interfaces_.push_back(std::make_unique<IpoibInterface>(key, qpn, sa, std::move(addresses),
                                                         options_.limits.interface, on_due_, now));
  return {};
}

void Resolver::remove_interface(const InterfaceKey& key, Instant now) {
  const auto found =
      std::ranges::find(interfaces_, key, [](const auto& each) { return each->key(); });
  if (found == interfaces_.end()) {
    return;
  }
  forget_waiting_for(**found);
  (*found)->stop(now);
  interfaces_.erase(found);
}

void Resolver::forget_waiting_for(const IpInterface& interface) {
  std::vector<ResolutionId> lost;
  for (const auto& [id, pending] : resolutions_) {
    if (pending.interface == &interface) {
      lost.push_back(id);
    }
  }
  for (const ResolutionId id : lost) {
    finish(id, resolution_error(ResolutionFailure::Down, "the interface is gone"));
  }
}

void Resolver::set_carried(const InterfaceKey& key, const SaClient& sa,
                           std::span<const InterfaceAddress> addresses) {
  CarriedInterface* of = carried(key);
  if (addresses.empty()) {
    if (of != nullptr) {
      forget_waiting_for(*of);
      std::erase_if(carried_, [of](const auto& one) { return one.get() == of; });
    }
    return;
  }
  if (of == nullptr) {
    of = carried_.emplace_back(std::make_unique<CarriedInterface>(key, sa)).get();
  }
  std::vector<InterfaceAddress> taken;
  std::ranges::copy_if(addresses, std::back_inserter(taken), [&](const InterfaceAddress& one) {
    const IpInterface* const has = interface_with(one.address);
    return has == nullptr || has == of;
  });
  of->set_addresses(std::move(taken));
}

CarriedInterface* Resolver::carried(const InterfaceKey& key) const {
  const auto found = std::ranges::find(carried_, key, [](const auto& each) { return each->key(); });
  return found == carried_.end() ? nullptr : found->get();
}

std::optional<std::pair<InterfaceKey, CarriedInterface::Question>> Resolver::poll_question() {
  for (const auto& each : carried_) {
    if (const auto question = each->poll_question()) {
      return std::pair{each->key(), *question};
    }
  }
  return std::nullopt;
}

void Resolver::take_neighbor(const InterfaceKey& key, const IpAddress& address, const Gid& gid) {
  if (CarriedInterface* const of = carried(key)) {
    of->take_answer(address, gid);
    on_due_();
  }
}

/// The kernel side's own first: that is the order of the host's addresses.
std::vector<IpInterface*> Resolver::all() const {
  std::vector<IpInterface*> each;
  each.reserve(interfaces_.size() + carried_.size());
  for (const auto& interface : interfaces_) {
    each.push_back(interface.get());
  }
  for (const auto& interface : carried_) {
    each.push_back(interface.get());
  }
  return each;
}

void Resolver::port_changed(PortKey port, Instant now) {
  for (const auto& each : interfaces_) {
    if (each->key().port == port) {
      each->port_changed(now);
    }
  }
}

void Resolver::announce(PortKey port, Instant now) {
  for (const auto& each : interfaces_) {
    if (each->key().port == port) {
      each->announce(now);
    }
  }
}

IpoibInterface* Resolver::interface(const InterfaceKey& key) {
  const auto found =
      std::ranges::find(interfaces_, key, [](const auto& each) { return each->key(); });
  return found == interfaces_.end() ? nullptr : found->get();
}

IpInterface* Resolver::interface_with(const IpAddress& address) const {
  const std::vector<IpInterface*> interfaces = all();
  const auto found =
      std::ranges::find_if(interfaces, [&](const auto* each) { return each->has(address); });
  return found == interfaces.end() ? nullptr : *found;
}

IpInterface& Resolver::with(const Own& own) const { return *interface_with(own.address.address); }

std::optional<Resolver::Own> Resolver::find_own(const IpAddress& asked) const {
  const IpAddress address = asked.unmapped();
  for (const IpInterface* const each : all()) {
    for (const InterfaceAddress& own : each->addresses()) {
      if (own.address == address) {
        return Own{.interface = each->key(), .address = own};
      }
    }
  }
  return std::nullopt;
}

std::vector<Resolver::Own> Resolver::own_addresses() const {
  std::vector<Own> addresses;
  for (const IpInterface* const each : all()) {
    for (const InterfaceAddress& own : each->addresses()) {
      addresses.push_back({.interface = each->key(), .address = own});
    }
  }
  return addresses;
}

/// Selects among the interfaces with the destination in their subnet: one that is up first, then
/// the one with the longest common prefix (as RFC 6724 §5, rule 8).
std::optional<Resolver::Own> Resolver::choose_source(const IpAddress& asked) const {
  const IpAddress destination = asked.unmapped();
  std::optional<Own> best;
  std::pair<bool, unsigned> best_rank{};
  for (const IpInterface* const each : all()) {
    for (const InterfaceAddress& own : each->addresses()) {
      const std::pair rank{each->is_up(), common_prefix(own.address, destination)};
      if (own.covers(destination) && (!best || rank > best_rank)) {
        best = Own{.interface = each->key(), .address = own};
        best_rank = rank;
      }
    }
  }
  return best;
}

std::optional<Resolver::Own> Resolver::own_of_family(IpFamily family) const {
  std::optional<Own> first;
  for (const IpInterface* const each : all()) {
    const auto addresses = each->addresses();
    const auto own = std::ranges::find(
        addresses, family, [](const InterfaceAddress& at) { return at.address.family(); });
    if (own != addresses.end() && (!first || each->is_up())) {
      first = Own{.interface = each->key(), .address = *own};
      if (each->is_up()) {
        break;
      }
    }
  }
  return first;
}

bool Resolver::is_local_address(const IpAddress& address) const {
  return is_any_host_itself(address) && interface_with(address) == nullptr;
}

/// Resolves one of the host's own addresses, without a packet.
Resolver::Outcome Resolver::own_host(const IpAddress& source, const IpAddress& target,
                                     const IpAddress& asked) const {
  const auto to = is_local_address(target) ? own_of_family(target.family()) : find_own(target);
  const auto from = source.is_unspecified() ? to : find_own(source);
  if (!to || !from) {
    return resolution_error(
        ResolutionFailure::NoSuchSource,
        fmt::format("{} is not an address of this host", to_string(from ? target : source)));
  }
  return Resolution{.source = from->address.address,
                    .destination = asked,
                    .port = from->interface.port,
                    .pkey = from->interface.pkey,
                    .source_gid = with(*from).gid(),
                    .destination_gid = with(*to).gid(),
                    .is_own_host = true};
}

/// Selects the interface for a destination on another host.
std::expected<Resolver::Own, ResolutionError> Resolver::choose(const IpAddress& source,
                                                               const IpAddress& destination) const {
  if (source.is_unspecified()) {
    if (const auto chosen = choose_source(destination)) {
      return *chosen;
    }
    return resolution_error(
        ResolutionFailure::NoRoute,
        fmt::format("no interface of this host is in the subnet of {}", to_string(destination)));
  }
  const auto own = find_own(source);
  if (!own || source.family() != destination.family()) {
    return resolution_error(ResolutionFailure::NoSuchSource,
                            fmt::format("{} is not an address of this host for {}",
                                        to_string(source), to_string(destination)));
  }
  return *own;
}

Result<ResolutionId> Resolver::resolve(const ResolutionRequest& resolution_request,
                                       ResolutionHandler handler, Instant now) {
  const IpAddress& destination = resolution_request.destination;
  IpAddress target = destination.unmapped();
  IpAddress source = resolution_request.source.unmapped();
  if (target.is_unspecified() || target.is_multicast() || target.is_limited_broadcast()) {
    return fail(ErrorCode::InvalidArgument, "{} is the address of no single host",
                to_string(target));
  }
  if (resolutions() + calls_.size() >= options_.limits.resolutions) {
    return fail(ErrorCode::OutOfMemory, "{} addresses are being resolved, which is the limit",
                options_.limits.resolutions);
  }
  const ResolutionId id{++last_resolution_};
  if (is_local_address(source)) {
    source = IpAddress{};
  }
  const auto& meant = resolution_request.loopback_target ? resolution_request.loopback_target
                                                         : options_.loopback_target;
  if (is_local_address(target) && meant) {
    target = meant->unmapped();
  }
  if (is_local_address(target) || interface_with(target) != nullptr) {
    complete(id, std::move(handler), own_host(source, target, destination));
    return id;
  }
  const auto own = choose(source, target);
  if (!own) {
    if (own.error().failure != ResolutionFailure::NoRoute ||
        !ask_source(id, target, destination, own.error(), handler, now)) {
      complete(id, std::move(handler), std::unexpected(own.error()));
    }
    return id;
  }
  IpInterface* const interface = &with(*own);
  Pending pending{
      .resolution = {.source = own->address.address,
                     .destination = destination,
                     .port = own->interface.port,
                     .pkey = own->interface.pkey,
                     .source_gid = interface->gid()},
      .neighbor = target,
      .interface = interface,
      .end = now + resolution_request.timeout,
      .handler = std::move(handler)
  };
  if (const auto gid = interface->find(target, now)) {
    pending.resolution.destination_gid = *gid;
    complete(id, std::move(pending.handler), pending.resolution);
    return id;
  }
  if (!interface->solicit(target, pending.end, now)) {
    return fail(ErrorCode::OutOfMemory, "too many neighbours are being asked for");
  }
  on_due_();
  waiting_.insert({
      {interface, target},
      id
  });
  ends_.emplace(pending.end, id);
  resolutions_.emplace(id, std::move(pending));
  return id;
}

void Resolver::set_address_source(AddressSource* source) {
  while (!asked_.empty()) {
    address_source_->cancel(asked_.begin()->second.question);
    finish_asked(asked_.begin()->first, std::nullopt);
  }
  address_source_ = source;
}

/// False: nobody is there to be asked, or the host has no address of that family, and the handler
/// is the caller's still.
bool Resolver::ask_source(ResolutionId id, const IpAddress& target, const IpAddress& destination,
                          const ResolutionError& otherwise, ResolutionHandler& handler,
                          Instant now) {
  const auto own = own_of_family(target.family());
  if (address_source_ == nullptr || !own) {
    return false;
  }
  const auto question = address_source_->ask_address(
      0, target,
      [this, id](const std::optional<Gid>& dgid, Instant /*now*/) { finish_asked(id, dgid); }, now);
  if (!question) {
    return false;
  }
  asked_.emplace(id, Asked{
                         .question = *question,
                         .resolution = {.source = own->address.address,
                                        .destination = destination,
                                        .port = own->interface.port,
                                        .pkey = own->interface.pkey,
                                        .source_gid = with(*own).gid()},
                         .otherwise = otherwise,
                         .handler = std::move(handler)
  });
  return true;
}

void Resolver::finish_asked(ResolutionId id, const std::optional<Gid>& dgid) {
  Asked asked = std::move(asked_.extract(id).mapped());
  if (!dgid) {
    complete(id, std::move(asked.handler), std::unexpected(std::move(asked.otherwise)));
    return;
  }
  asked.resolution.destination_gid = *dgid;
  complete(id, std::move(asked.handler), asked.resolution);
}

void Resolver::complete(ResolutionId id, ResolutionHandler handler, Outcome outcome) {
  calls_.emplace_back([id, reported = std::move(outcome), user = std::move(handler)](Instant now) {
    user(id, reported, now);
  });
  on_due_();
}

/// Completes a resolution; the last one for a neighbour also ends its solicitation.
void Resolver::finish(ResolutionId id, Outcome outcome) {
  auto over = resolutions_.extract(id);
  Pending& pending = over.mapped();
  const WaitingKey key{pending.interface, pending.neighbor};
  waiting_.erase({key, id});
  ends_.erase({pending.end, id});
  const auto other = waiting_.lower_bound({key, ResolutionId{}});
  if (other == waiting_.end() || other->first != key) {
    pending.interface->stop_soliciting(pending.neighbor);
  }
  complete(id, std::move(pending.handler), std::move(outcome));
}

void Resolver::cancel(ResolutionId resolution, Instant /*now*/) {
  if (resolutions_.contains(resolution)) {
    finish(resolution, resolution_error(ResolutionFailure::Cancelled, "cancelled"));
  } else if (const auto found = asked_.find(resolution); found != asked_.end()) {
    address_source_->cancel(found->second.question);
    found->second.otherwise = {ResolutionFailure::Cancelled, "cancelled"};
    finish_asked(resolution, std::nullopt);
  }
}

void Resolver::handle_datagram(PortKey port, const mad::ReceivedDatagram& datagram, Instant now) {
  for (const auto& each : interfaces_) {
    if (each->key().port == port && each->handle_datagram(datagram, now)) {
      return;
    }
  }
}

void Resolver::take_found() {
  for (IpInterface* const each : all()) {
    for (const auto& [address, gid] : each->take_found()) {
      const WaitingKey key{each, address};
      while (true) {
        const auto next = waiting_.lower_bound({key, ResolutionId{}});
        if (next == waiting_.end() || next->first != key) {
          break;
        }
        Resolution resolution = resolutions_.at(next->second).resolution;
        resolution.source_gid = each->gid();
        resolution.destination_gid = gid;
        finish(next->second, resolution);
      }
    }
  }
}

void Resolver::expire(Instant now) {
  while (!ends_.empty() && ends_.begin()->first <= now) {
    const ResolutionId id = ends_.begin()->second;
    const Pending& pending = resolutions_.at(id);
    const std::string address = to_string(pending.neighbor);
    if (pending.interface->is_up()) {
      finish(id,
             resolution_error(ResolutionFailure::TimedOut,
                              fmt::format("no neighbour answered for the address {}", address)));
    } else {
      finish(id, resolution_error(
                     ResolutionFailure::Down,
                     fmt::format("the interface that leads to {} is down: its port is not Active, "
                                 "or the subnet manager refuses it the broadcast group",
                                 address)));
    }
  }
}

void Resolver::handle_timeout(Instant now) {
  take_found();
  expire(now);
  for (const auto& each : interfaces_) {
    each->handle_timeout(now);
  }
  for (std::size_t left = calls_.size(); left != 0; --left) {
    const std::function<void(Instant)> call = std::move(calls_.front());
    calls_.pop_front();
    call(now);
  }
}

std::optional<std::pair<PortKey, mad::Datagram>> Resolver::poll_transmit() {
  for (std::size_t i = 0; i < interfaces_.size(); ++i) {
    IpoibInterface& sender = *interfaces_[(next_sender_ + i) % interfaces_.size()];
    if (auto datagram = sender.poll_transmit()) {
      next_sender_ = (next_sender_ + i + 1) % interfaces_.size();
      return std::pair{sender.key().port, std::move(*datagram)};
    }
  }
  return std::nullopt;
}

Instant Resolver::deadline() const {
  if (!calls_.empty()) {
    return Instant{};
  }
  Instant next = ends_.empty() ? Instant::never() : ends_.begin()->first;
  for (const auto& each : interfaces_) {
    next = std::min(next, each->deadline());
  }
  const bool is_due =
      std::ranges::any_of(carried_, [](const auto& each) { return each->is_due(); });
  return is_due ? Instant{} : next;
}

}  // namespace weft::sa
