#include "node/port_mappers.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "iwpm/kernel_side.h"
#include "wire/iwpm/driver_messages.h"

namespace weft::node {

namespace {

using iwpm::ConnectionAddresses;
using wire::iwpm::DriverOperation;
using wire::iwpm::kClientIwcm;

/// What the daemon is told of the host: iwpmd wants names, and only shows them.
constexpr const char* kDeviceName = "weftiw0";
constexpr const char* kInterfaceName = "eth0";

struct Asked {
  std::uint32_t port{};      ///< of the driver; 0: it has gone
  std::uint32_t sequence{};  ///< of its request
  bool connects{};
  ConnectionAddresses addresses{};
};

/// A request of a driver; none: it is no such message.
[[nodiscard]] std::optional<Asked> asked_in(const NetlinkSender& sender, DriverOperation operation,
                                            const wire::netlink::Message& message) {
  Asked asked{.port = sender.port,
              .sequence = message.header.sequence,
              .connects = operation != DriverOperation::Map};
  if (operation == DriverOperation::Map) {
    const auto said = wire::iwpm::parse<wire::iwpm::AddMapping>(message.payload);
    if (!said || !said->local.is_ip()) {
      return std::nullopt;
    }
    asked.addresses.local = said->local;
    asked.addresses.flags = said->flags;
    return asked;
  }
  const auto said = wire::iwpm::parse<wire::iwpm::QueryMapping>(message.payload);
  if (!said || !said->local.is_ip() || !said->remote.is_ip()) {
    return std::nullopt;
  }
  asked.addresses.local = said->local;
  asked.addresses.remote = said->remote;
  asked.addresses.flags = said->flags;
  return asked;
}

[[nodiscard]] std::uint16_t error_of(const iwpm::WaitResult& result) {
  if (result.is_timeout) {
    return wire::iwpm::kDriverTimedOut;
  }
  return static_cast<std::uint16_t>(std::abs(result.number));
}

}  // namespace

/// One host: its kernel's side, and the drivers on it.
class PortMappers::Host final : public iwpm::KernelServices {
 public:
  Host(PortMappers& owner, fabric::NodeIndex index) : owner_(owner), index_(index) {
    static_cast<void>(kernel.init(kClientIwcm));
  }

  Result<void> unicast(std::uint32_t port, std::vector<std::byte> datagram) override {
    const int error = owner_.sockets_.unicast(index_, port, datagram);
    if (error == -ECONNREFUSED) {
      return fail(ErrorCode::Refused, "no socket has the netlink address {}", port);
    }
    return error == 0 ? Result<void>{} : fail(ErrorCode::TryAgain, "the socket is full");
  }
  Result<void> multicast(std::uint32_t /*group*/, std::vector<std::byte> datagram) override {
    if (owner_.sockets_.multicast(index_, NetlinkGroup::PortMapper, datagram) != 0) {
      return fail(ErrorCode::NotFound, "no port mapper listens on this host");
    }
    return {};
  }
  void log(std::string line) override {
    if (owner_.log_) {
      owner_.log_(std::move(line));
    }
  }

  int take_request(const NetlinkSender& sender, DriverOperation operation,
                   const wire::netlink::Message& message, Instant now);
  void collect(Instant now);
  void forget(std::uint32_t driver);
  [[nodiscard]] std::size_t mappings() const { return mapped_.size(); }

  iwpm::KernelSide kernel{*this};

 private:
  struct Mapped {
    std::uint32_t driver{};
    ConnectionAddresses addresses{};
  };

  void begin(Asked asked, Instant now);
  void ask(Asked asked, Instant now);
  void finish(const Asked& asked, const iwpm::Completion& completion);
  void answer(const Asked& asked, std::uint16_t error);
  void unmap(const Mapped& mapped);

  PortMappers& owner_;
  fabric::NodeIndex index_;
  std::map<std::uint32_t, Asked> waiting_;  // by the kernel's sequence number
  std::vector<Mapped> mapped_;
};

int PortMappers::Host::take_request(const NetlinkSender& sender, DriverOperation operation,
                                    const wire::netlink::Message& message, Instant now) {
  if (operation == DriverOperation::Unmap) {
    const auto said = wire::iwpm::parse<wire::iwpm::RemoveMapping>(message.payload);
    const auto found = std::ranges::find_if(mapped_, [&](const Mapped& mapped) {
      return said && mapped.driver == sender.port && mapped.addresses.local.is_same(said->local);
    });
    if (found == mapped_.end()) {
      return said ? -ENOENT : -EINVAL;
    }
    unmap(*found);
    mapped_.erase(found);
    return 0;
  }
  auto asked = asked_in(sender, operation, message);
  if (!asked) {
    return -EINVAL;
  }
  if (operation == DriverOperation::FindRemote) {
    const auto remote =
        kernel.get_remote_info(asked->addresses.local, asked->addresses.remote, kClientIwcm);
    asked->addresses.mapped_local = asked->addresses.local;
    asked->addresses.mapped_remote = asked->addresses.remote;
    if (remote) {
      asked->addresses.remote = *remote;
    }
    answer(*asked, remote ? 0 : wire::iwpm::kDriverUnknown);
    return 0;
  }
  const auto own = std::ranges::count(mapped_, sender.port, &Mapped::driver) +
                   std::ranges::count_if(waiting_, [&](const auto& entry) {
                     return entry.second.port == sender.port;
                   });
  if (static_cast<std::size_t>(own) >= kMostMappings) {
    answer(*asked, wire::iwpm::kDriverNoBuffers);
    return 0;
  }
  begin(*std::move(asked), now);
  return 0;
}

/// Every connection of a driver asks first who the daemon is, as on Linux: it may be another one.
void PortMappers::Host::begin(Asked asked, Instant now) {
  const auto started = kernel.register_pid(
      {.device_name = kDeviceName, .interface_name = kInterfaceName}, kClientIwcm, now);
  if (started && started->completion_follows) {
    waiting_.emplace(started->sequence, std::move(asked));
    return;
  }
  ask(std::move(asked), now);  // also where nobody listens: it goes on unmapped
}

void PortMappers::Host::ask(Asked asked, Instant now) {
  const auto started = asked.connects
                           ? kernel.add_and_query_mapping(asked.addresses, kClientIwcm, now)
                           : kernel.add_mapping(asked.addresses, kClientIwcm, now);
  if (started && started->completion_follows) {
    waiting_.emplace(started->sequence, std::move(asked));
    return;
  }
  // Without a daemon addresses stand for themselves.
  const bool goes_unmapped = started || started.error().code == ErrorCode::Refused;
  asked.addresses.mapped_local = asked.addresses.local;
  asked.addresses.mapped_remote = asked.addresses.remote;
  answer(asked, goes_unmapped ? 0 : wire::iwpm::kDriverInvalid);
}

void PortMappers::Host::collect(Instant now) {
  while (const auto completion = kernel.poll_completion()) {
    auto waiter = waiting_.extract(completion->sequence);
    if (waiter.empty()) {
      continue;
    }
    if (completion->operation == wire::iwpm::Operation::RegisterPid) {
      if (completion->result.number == 0) {
        ask(std::move(waiter.mapped()), now);
      } else {
        answer(waiter.mapped(), error_of(completion->result));
      }
      continue;
    }
    finish(waiter.mapped(), *completion);
  }
}

void PortMappers::Host::finish(const Asked& asked, const iwpm::Completion& completion) {
  Asked mapped = asked;
  mapped.addresses = completion.addresses;
  if (!completion.has_mapping()) {
    return answer(mapped, error_of(completion.result));
  }
  if (asked.port == 0) {
    static_cast<void>(kernel.remove_mapping(completion.addresses.local, kClientIwcm));
    return;
  }
  const Mapped entry{.driver = asked.port, .addresses = completion.addresses};
  const auto kept = kernel.create_mapinfo(entry.addresses.local, entry.addresses.mapped_local,
                                          kClientIwcm, entry.addresses.flags);
  if (!kept) {
    static_cast<void>(kernel.remove_mapping(entry.addresses.local, kClientIwcm));
    return answer(mapped, wire::iwpm::kDriverNoBuffers);
  }
  mapped_.push_back(entry);
  answer(mapped, error_of(completion.result));
}

/// A driver that has gone meanwhile keeps nothing.
void PortMappers::Host::answer(const Asked& asked, std::uint16_t error) {
  if (asked.port == 0) {
    return;
  }
  std::vector<std::byte> datagram;
  const bool is_formed =
      wire::iwpm::append(datagram, wire::iwpm::kMessageRoom,
                         {.client = kClientIwcm, .sequence = asked.sequence, .port = 0, .flags = 0},
                         wire::iwpm::ConnectionInfo{.sequence = asked.sequence,
                                                    .local = asked.addresses.local,
                                                    .remote = asked.addresses.remote,
                                                    .mapped_local = asked.addresses.mapped_local,
                                                    .mapped_remote = asked.addresses.mapped_remote,
                                                    .error = error},
                         wire::iwpm::kAbi, wire::iwpm::as_operation(DriverOperation::Answer));
  if (!is_formed || owner_.sockets_.unicast(index_, asked.port, datagram) == -ECONNREFUSED) {
    forget(asked.port);
  }
}

void PortMappers::Host::unmap(const Mapped& mapped) {
  static_cast<void>(kernel.remove_mapinfo(mapped.addresses.local, mapped.addresses.mapped_local));
  static_cast<void>(kernel.remove_mapping(mapped.addresses.local, kClientIwcm));
}

/// What it waits for ends unheard, and is unmapped then.
void PortMappers::Host::forget(std::uint32_t driver) {
  const auto gone = std::ranges::partition(
      mapped_, [&](const Mapped& mapped) { return mapped.driver != driver; });
  std::vector<Mapped> over(gone.begin(), gone.end());
  mapped_.erase(gone.begin(), gone.end());
  for (const Mapped& mapped : over) {
    unmap(mapped);
  }
  for (auto& [sequence, asked] : waiting_) {
    asked.port = asked.port == driver ? 0 : asked.port;  // another may have the address soon
  }
}

PortMappers::PortMappers(NetlinkSockets& sockets, std::function<Instant()> now,
                         std::function<void(std::string)> log)
    : sockets_(sockets), now_(std::move(now)), log_(std::move(log)) {
  sockets_.serve(host_view::Client::Iwcm, this);
}

PortMappers::~PortMappers() { sockets_.serve(host_view::Client::Iwcm, nullptr); }

int PortMappers::receive(const NetlinkSender& sender, std::uint16_t operation,
                         const wire::netlink::Message& message) {
  const Instant now = now_();
  auto& host = hosts_[sender.host];
  if (host == nullptr) {
    host = std::make_unique<Host>(*this, sender.host);
  }
  const int result =
      wire::iwpm::is_driver_operation(operation)
          ? operation == static_cast<std::uint16_t>(DriverOperation::Answer)
                ? -EINVAL
                : host->take_request(sender, static_cast<DriverOperation>(operation), message, now)
          : host->kernel.handle_message(message, sender.port, now);
  host->collect(now);
  return result;
}

void PortMappers::closed(const NetlinkSender& sender) {
  if (const auto found = hosts_.find(sender.host); found != hosts_.end()) {
    found->second->forget(sender.port);
  }
}

void PortMappers::handle_timeout(Instant now) {
  for (const auto& [index, host] : hosts_) {
    host->kernel.handle_timeout(now);
    host->collect(now);
  }
}

Instant PortMappers::deadline() const {
  Instant first = Instant::never();
  for (const auto& [index, host] : hosts_) {
    first = std::min(first, host->kernel.poll_deadline());
  }
  return first;
}

std::size_t PortMappers::mappings(fabric::NodeIndex host) const {
  const auto found = hosts_.find(host);
  return found == hosts_.end() ? 0 : found->second->mappings();
}

}  // namespace weft::node
