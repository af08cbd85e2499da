#include "programs/vnic/service.h"

#include <fmt/format.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <set>
#include <utility>

#include "os/clock.h"
#include "wire/ethernet.h"
#include "wire/opa/packet_16b.h"

namespace weft::programs::vnic {

using opa_vnic::VirtualPort;
using opa_vnic::VirtualPortName;

namespace {

// Policy.
constexpr int kFramesOfTurn = 64;
constexpr std::size_t kMostInterfaces = 16;
constexpr Duration kComesUpWithin = Duration::seconds(20);
constexpr Duration kLeavesWithin = Duration::milliseconds(500);
constexpr Duration kBetweenFacts = Duration::milliseconds(500);
constexpr Duration kBetweenLooks = Duration::seconds(5);

constexpr PortNumber kPort{1};
constexpr std::uint64_t kOuiOfOmniPath = 0x0011'7500'0000;  // not locally administered
constexpr std::size_t kEthernet = 14;
constexpr std::size_t kEthernetAndTag = 18;
constexpr std::size_t kMostPadding = 7;

/// Where the IP header of a frame is, behind a tag if it has one.
[[nodiscard]] std::size_t network_at(ByteSpan frame) {
  const auto header = wire::parse<wire::Ethernet>(frame);
  return header && header->ether_type == wire::kEtherTypeVlan ? kEthernetAndTag : kEthernet;
}

[[nodiscard]] FloodGroup group_of(const wire::VeswInfo& vesw) {
  return {.fabric_id = vesw.fabric_id, .vesw_id = vesw.vesw_id, .mlid = Lid{vesw.multicast_dlid}};
}

void log(std::string_view what) { fmt::print(stderr, "weft-vnic: {}\n", what); }

}  // namespace

Result<std::unique_ptr<Service>> Service::start(const ServiceOptions& options) {
  // Before libibverbs makes threads, which inherit it.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  auto control = Control::listen(kServiceName);
  if (!control) {
    return std::unexpected(std::move(control.error()));
  }
  std::unique_ptr<Service> service{
      new Service{options, *std::move(control)}
  };
  service->signals_ = os::UniqueFd{signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK)};
  if (auto opened = service->open(); !opened) {
    return std::unexpected(std::move(opened.error()));
  }
  return service;
}

Service::~Service() = default;

Result<void> Service::open() {
  // Said now, where it is read, and not when a manager wants an interface.
  if (const auto probe = net::Tun::make("opa0", net::TunKind::Ethernet); !probe) {
    return std::unexpected(probe.error());
  }
  auto port =
      OpaPort::open(OpaPort::Use::Agent,
                    {.mad =
                         [this](const opa_vnic::VemaPeer& from, ByteSpan mad) {
                           vnics_->handle_mad(kPort, from, mad, os::now());
                           has_changed_ = true;
                         },
                     .packet = [this](ByteSpan packet) { vnics_->handle_packet(kPort, packet); },
                     .changed = [this] { has_changed_ = true; }});
  if (!port) {
    return std::unexpected(std::move(port.error()));
  }
  port_ = *std::move(port);
  auto vnics = opa_vnic::ControlPort::add_one(*this);
  if (!vnics) {
    return std::unexpected(std::move(vnics.error()));
  }
  vnics_ = *std::move(vnics);
  return {};
}

Result<void> Service::run(const std::function<void(const std::string&)>& on_up) {
  on_up_ = on_up;
  const Instant up_until = os::now() + kComesUpWithin;
  while (true) {
    const Instant now = os::now();
    const auto has_more = work(now);
    if (!has_more) {
      return std::unexpected(has_more.error());
    }
    if (!has_told_ && up_until <= now) {
      return fail(ErrorCode::TimedOut, "{}",
                  !port_->is_announced()
                      ? "the port is not active, or no subnet manager answers (weft status)"
                      : "no Ethernet Manager has made this host a port of a virtual switch (weft "
                        "em up HOST FILE; weft em show HOST); --no-wait waits for none");
    }
    if (auto flushed = port_->flush(); !flushed) {
      return flushed;
    }
    wait_set(waits_);
    const Instant until = has_told_ ? deadline() : std::min(deadline(), up_until);
    if (auto waited = waits_.wait(*has_more ? now : until); !waited) {
      return waited;
    }
    if (waits_.is_ready(signals_.get())) {
      break;
    }
  }
  vnics_.reset();
  const Instant end = os::now() + kLeavesWithin;
  port_->set_groups({}, os::now());
  while (!port_->is_idle() && os::now() < end) {
    waits_.clear();
    if (!port_->flush() || port_->is_idle()) {
      break;
    }
    port_->add_to(waits_);
    if (!waits_.wait(std::min(end, port_->deadline())) || !port_->work(waits_, os::now())) {
      break;
    }
  }
  return {};
}

void Service::wait_set(PollSet& waits) const {
  waits.clear();
  waits.add(signals_.get());
  port_->add_to(waits);
  if (port_->has_room()) {  // else frames wait in the TAP, whose queue is the host's
    for (const auto& [name, tap] : taps_) {
      waits.add(tap.tun.fd());
    }
  }
  waits.add(control_.descriptors());
}

Instant Service::deadline() const {
  Instant first = std::min(port_->deadline(), vnics_->deadline());
  return taps_.empty() ? first : std::min({first, next_facts_, next_look_});
}

/// True: there is more to do at once.
Result<bool> Service::work(Instant now) {
  auto more = port_->work(waits_, now);
  if (!more) {
    return more;
  }
  *more |= take_frames();
  vnics_->handle_timeout(now);
  if (now >= next_facts_) {
    next_facts_ = now + kBetweenFacts;
    has_changed_ = true;
    for (auto& [name, tap] : taps_) {
      if (VirtualPort* const vport = vnics_->get_vport(name)) {
        follow_facts(*vport, tap, now);
      }
    }
  }
  if (now >= next_look_) {  // a peer that began anew has other QPs
    next_look_ = now + kBetweenLooks;
    if (std::exchange(looked_at_, port_->counters().packets_sent) !=
        port_->counters().packets_sent) {
      port_->look_up(now);
    }
  }
  if (std::exchange(has_changed_, false)) {
    follow_port(now);
    follow_interfaces(now);
    tell_if_up();
  }
  for (auto& [name, tap] : taps_) {
    tap.coalescer->flush();
  }
  control_.handle([this](std::string_view line) { return answer(line); });
  return more;
}

void Service::follow_port(Instant now) {
  const bool is_active = port_->is_active();
  if (is_active != std::exchange(was_active_, is_active)) {
    vnics_->handle_port_event(kPort, is_active, now);
  }
  std::set<FloodGroup> groups;
  for (const auto& [number, vport] : vnics_->get_port(kPort)->vports()) {
    const wire::VeswInfo vesw = vport.info().vesw;
    if (vesw.vesw_id != 0) {
      groups.insert(group_of(vesw));
    }
  }
  port_->set_groups(groups, now);
}

/// What the manager has set, as the host sees it.
void Service::follow_interfaces(Instant now) {
  const std::size_t overhead =
      wire::kSizeOf<wire::Opa16bHeader> + kMostPadding + wire::kOpaIcrcBytes + wire::kOpaTailBytes;
  const std::size_t room = port_->max_packet_bytes();
  const auto most = static_cast<std::uint16_t>(
      room > overhead + kEthernetAndTag
          ? std::min<std::size_t>(room - overhead - kEthernetAndTag, opa_vnic::kMaxEthMtu)
          : 0);
  for (auto& [name, tap] : taps_) {
    VirtualPort* const vport = vnics_->get_vport(name);
    if (vport == nullptr) {
      continue;
    }
    vport->set_mtu(options_.mtu == 0 ? most : std::min(most, options_.mtu));
    if (const auto applied = apply(*vport, tap); !applied) {
      if (std::exchange(last_problem_, applied.error().reason) != applied.error().reason) {
        log(applied.error().reason);
      }
    }
    if (!tap.facts) {
      follow_facts(*vport, tap, now);
    }
  }
}

Result<void> Service::apply(const VirtualPort& vport, Tap& tap) {
  if (vport.mac() != tap.mac) {
    tap.mac = vport.mac();
    tap.facts.reset();
    if (auto set = tap.tun.set_mac(tap.mac); !set) {
      return set;
    }
  }
  const bool has_carrier = vport.has_carrier();
  if (has_carrier && !tap.is_made) {
    tap.is_made = true;
    tap.mtu = vport.mtu();
    tap.facts.reset();
    const bool is_first = vport.name().number == 0;
    if (auto up = tap.tun.bring_up(tap.mtu,
                                   is_first ? options_.addresses : std::vector<InterfaceAddress>{});
        !up) {
      return up;
    }
  }
  if (tap.is_made && vport.mtu() != tap.mtu) {
    tap.mtu = vport.mtu();
    if (auto set = tap.tun.set_mtu(tap.mtu); !set) {
      return set;
    }
  }
  if (tap.has_carrier != has_carrier) {
    tap.has_carrier = has_carrier;
    tap.tun.set_carrier(has_carrier);
  }
  return {};
}

void Service::follow_facts(VirtualPort& vport, Tap& tap, Instant now) {
  auto facts = facts_of_tap(tap.tun.name());
  if (!facts || facts == tap.facts) {
    return;
  }
  vport.set_unicast_macs({facts->mac}, now);
  vport.set_multicast_macs(facts->groups, now);
  vport.set_promiscuous(facts->is_promiscuous);
  vport.set_interface_up(facts->is_up, now);
  tap.facts = std::move(facts);
  has_changed_ = true;
}

void Service::tell_if_up() {
  if (has_told_) {
    return;
  }
  for (const auto& [number, vport] : vnics_->get_port(kPort)->vports()) {
    const wire::VeswInfo vesw = vport.info().vesw;
    const bool is_joined = port_->lid_of_group(group_of(vesw)).has_value();
    if (vport.is_forwarding() && is_joined) {
      std::string text = fmt::format("opa{}", number);
      for (const InterfaceAddress& address : options_.addresses) {
        text += number == 0 ? " " + to_string(address) : "";
      }
      has_told_ = true;
      return on_up_(fmt::format("{} mtu {}, virtual switch {}", text, vport.mtu(), vesw.vesw_id));
    }
  }
  if (!options_.waits && port_->is_announced()) {
    has_told_ = true;
    on_up_(fmt::format("the agent is at LID {}, and waits for an Ethernet Manager",
                       port_->lid().value()));
  }
}

bool Service::take_frames() {
  bool more = false;
  for (auto& [name, tap] : taps_) {
    if (!waits_.is_ready(tap.tun.fd())) {
      continue;
    }
    int turn = 0;
    for (; turn < kFramesOfTurn && port_->has_room(); ++turn) {
      const auto sent = tap.tun.read(buffer_);
      if (!sent) {
        break;
      }
      static_cast<void>(segmenter_.split(sent->offload, sent->packet, network_at(sent->packet),
                                         [&](ByteSpan frame) { vnics_->transmit(name, frame); }));
    }
    more |= turn == kFramesOfTurn;
  }
  return more;
}

Result<void> Service::set_ethernet_on_fabric(PortNumber, bool is_supported) {
  if (is_supported) {
    port_->announce(options_.host, os::now());
  } else {
    port_->withdraw(os::now());
  }
  return {};
}

void Service::send_mad(PortNumber, const opa_vnic::VemaPeer& to, std::vector<std::byte> mad) {
  if (to.qp == kQp1) {  // a trap
    port_->send_mad_to_manager(to, std::move(mad));
  } else {
    port_->send_mad(to, std::move(mad));
  }
}

void Service::send_packet(PortNumber, VirtualPort::Sent packet) {
  port_->send_packet(std::move(packet.packet), os::now());
}

wire::MacAddress Service::hardware_mac(const VirtualPortName& name) const {
  return wire::MacAddress::from_number(kOuiOfOmniPath | (port_->lid().value() & 0xFFFFU) << 8 |
                                       name.number);
}

bool Service::add_interface(const VirtualPortName& name) {
  if (taps_.size() >= kMostInterfaces) {
    log(fmt::format("a manager wants more than {} interfaces", kMostInterfaces));
    return false;
  }
  auto tun = net::Tun::make(fmt::format("opa{}", name.number), net::TunKind::Ethernet);
  if (!tun) {
    log(tun.error().reason);
    return false;
  }
  tun->set_carrier(false);
  Tap& tap = taps_.emplace(name, Tap{.tun = *std::move(tun)}).first->second;
  tap.coalescer =
      std::make_unique<offload::Coalescer>([&tap](const offload::Offload& offload, ByteSpan frame) {
        tap.lost += tap.tun.write(offload, frame) ? 0 : 1;
      });
  return true;
}

void Service::remove_interface(const VirtualPortName& name) { taps_.erase(name); }

void Service::deliver(const VirtualPortName& name, ByteSpan frame) {
  const auto found = taps_.find(name);
  if (found != taps_.end()) {
    found->second.coalescer->add(frame, network_at(frame));
  }
}

}  // namespace weft::programs::vnic
