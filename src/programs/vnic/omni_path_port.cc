#include "programs/vnic/omni_path_port.h"

#include <algorithm>
#include <utility>

#include "os/clock.h"
#include "wire/mad/mad.h"
#include "wire/opa/vema_mad.h"

namespace weft::programs::vnic {
namespace {

/// Policy: until it is tried again to tell the daemon what it had no room for.
constexpr Duration kAgain = Duration::milliseconds(10);
/// The largest MTU of Omni-Path, and the room that its adapters leave for headers.
constexpr std::size_t kLongestPacket = 10'240 + 128;
constexpr ServiceLevel kLastServiceLevel{31};  // of 5 bits

/// An agent answers whatever is asked (R-VN-3), and a manager is told by traps.
[[nodiscard]] OmniPathWishes wishes_of(OpaPort::Use use) {
  constexpr std::uint64_t kTrap = std::uint64_t{1} << std::to_underlying(wire::MadMethod::Trap);
  return use == OpaPort::Use::Agent
             ? OmniPathWishes{.takes_ethernet = true,
                              .requests = {~kTrap, ~std::uint64_t{}}}
             : OmniPathWishes{
                   .takes_answers = true, .watches_ports = true, .requests = {kTrap, 0}};
}

}  // namespace

Result<std::unique_ptr<OpaPort>> OmniPathPort::open(Use use, Handlers handlers) {
  auto attached = OmniPathAttachment::attach(wishes_of(use));
  if (!attached) {
    return std::unexpected(std::move(attached.error()));
  }
  return std::unique_ptr<OpaPort>{
      new OmniPathPort{use, std::move(handlers), *std::move(attached)}
  };
}

void OmniPathPort::add_to(PollSet& waits) const {
  waits.add(attachment_->news_fd());
  waits.add(attachment_->packets_fd());
  if (attachment_->keeps_packets()) {
    waits.add_writable(attachment_->packets_fd());
  }
}

Instant OmniPathPort::deadline() const {
  return attachment_->keeps_words() ? os::now() + kAgain : Instant::never();
}

Result<bool> OmniPathPort::work(const PollSet& waits, Instant /*now*/) {
  if (waits.is_ready(attachment_->news_fd())) {
    const auto news = attachment_->take_news();
    if (!news) {
      return std::unexpected(news.error());
    }
    follow(*news);
  }
  bool has_more = false;
  if (waits.is_ready(attachment_->packets_fd())) {
    const auto more = attachment_->receive([this](ByteSpan packet) { receive(packet); });
    if (!more) {
      return more;
    }
    has_more = *more;
  }
  return has_more;
}

void OmniPathPort::follow(const OmniPathNews& news) {
  bool has_changed = news.has_port_changed;
  has_others_ |= news.have_ports_changed;
  for (const auto& [mlid, is_joined] : news.joined) {
    if (const auto wanted = groups_.find(mlid); wanted != groups_.end()) {
      has_changed |= std::exchange(wanted->second, is_joined) != is_joined;
    }
  }
  if (news.listed) {
    is_looking_up_ = false;
    take_listed(*news.listed);
  }
  if (has_changed) {
    handlers_.changed();
  }
}

void OmniPathPort::take_listed(const std::vector<ListedOmniPathPort>& listed) {
  std::map<Lid, Announcement> now_announced;
  for (const ListedOmniPathPort& port : listed) {
    if (port.is_active && port.carries_ethernet && is_host_name(port.host)) {
      now_announced.insert_or_assign(
          port.lid, Announcement{.host = port.host, .lid = port.lid, .serial = port.serial});
    }
  }
  if (std::exchange(announced_, now_announced) != now_announced) {
    handlers_.changed();
  }
}

PKey OmniPathPort::management_pkey() const {
  const std::vector<PKey>& pkeys = attachment_->pkeys();
  const auto found = std::ranges::find(pkeys, kDefaultPKey.base(), &PKey::base);
  return found != pkeys.end() ? *found : pkeys.empty() ? kDefaultPKey : pkeys.front();
}

std::size_t OmniPathPort::max_packet_bytes() const { return kLongestPacket; }

void OmniPathPort::announce(std::string /*host*/, Instant /*now*/) {
  attachment_->set_carries_ethernet(true);
  is_announced_ = true;
  handlers_.changed();
}

void OmniPathPort::withdraw(Instant /*now*/) {
  attachment_->set_carries_ethernet(false);
  is_announced_ = false;
}

void OmniPathPort::look_up(Instant /*now*/) {
  if (use_ == Use::Manager && has_others_ && !is_looking_up_) {
    has_others_ = false;
    is_looking_up_ = true;
    attachment_->ask_for_ports();
  }
}

/// A manager only names the groups; its port need not be in them.
void OmniPathPort::set_groups(const std::set<FloodGroup>& wanted, Instant /*now*/) {
  std::map<Lid, bool> next;
  for (const FloodGroup& group : wanted) {
    if (use_ == Use::Agent && group.mlid != Lid{}) {
      next.emplace(group.mlid, false);
    }
  }
  for (const auto& [mlid, is_joined] : groups_) {
    if (const auto stays = next.find(mlid); stays != next.end()) {
      stays->second = is_joined;
    } else {
      attachment_->leave(mlid);
    }
  }
  for (const auto& [mlid, is_joined] : next) {
    if (!groups_.contains(mlid)) {
      attachment_->join(mlid);
    }
  }
  groups_ = std::move(next);
}

std::optional<Lid> OmniPathPort::lid_of_group(const FloodGroup& group) const {
  if (use_ == Use::Manager) {
    return is_active() ? std::optional{multicast_lid_of(group.vesw_id)} : std::nullopt;
  }
  const auto found = groups_.find(group.mlid);
  return found != groups_.end() && found->second ? std::optional{group.mlid} : std::nullopt;
}

void OmniPathPort::send_mad(const opa_vnic::VemaPeer& to, std::vector<std::byte> mad) {
  // Each service level has the service channel of its number; policy.
  if (to.sl > kLastServiceLevel ||
      !attachment_->send(wire::to_opa_mad_packet(
          {.slid = lid(), .service_channel = to.sl.value(), .dlid = to.lid, .pkey = to.pkey},
          {.dest_qp = to.qp, .source_qp = kQp1}, mad))) {
    ++counters_.mads_unroutable;
    return;
  }
  ++counters_.mads_sent;
}

void OmniPathPort::send_mad_to_agent(Lid to, std::vector<std::byte> mad) {
  if (!announced_.contains(to)) {
    ++counters_.mads_unroutable;
    return;
  }
  send_mad({.lid = to, .pkey = management_pkey()}, std::move(mad));
}

void OmniPathPort::send_packet(std::vector<std::byte> packet, Instant /*now*/) {
  const auto header =
      wire::unpack<wire::Opa16bHeader>(ByteSpan{packet}.first<wire::kSizeOf<wire::Opa16bHeader>>());
  if (packet.size() > kLongestPacket) {
    ++counters_.tx_too_long;
  } else if (groups_.contains(header.dlid) && !groups_.at(header.dlid)) {
    ++counters_.tx_no_group;
  } else if (!attachment_->send(std::move(packet))) {
    ++counters_.tx_refused;
  } else {
    ++counters_.packets_sent;
  }
}

/// Switches let through only what is for this port; what comes to a group that it has just left is
/// not its business any more.
bool OmniPathPort::is_for_here(const wire::Opa16bHeader& header) const {
  return header.dlid == lid() || groups_.contains(header.dlid);
}

void OmniPathPort::receive(ByteSpan packet) {
  if (packet.size() < wire::kSizeOf<wire::Opa16bHeader>) {
    ++counters_.rx_truncated;
    return;
  }
  const auto header =
      wire::unpack<wire::Opa16bHeader>(packet.first<wire::kSizeOf<wire::Opa16bHeader>>());
  if (header.l4_type == wire::kOpaL4Fm) {
    return receive_mad(packet);
  }
  if (!is_for_here(header)) {
    ++counters_.rx_misrouted;
    return;
  }
  ++counters_.packets_received;
  handlers_.packet(packet);
}

void OmniPathPort::receive_mad(ByteSpan packet) {
  const auto parsed = wire::parse_opa_mad(packet);
  if (!parsed || !parsed->has_valid_icrc) {
    ++counters_.rx_truncated;
    return;
  }
  if (parsed->header.dlid != lid()) {
    ++counters_.rx_misrouted;
    return;
  }
  ++counters_.mads_received;
  // It is answered by that P_Key of this port by which it came in.
  const std::vector<PKey>& pkeys = attachment_->pkeys();
  const auto own =
      std::ranges::find_if(pkeys, [&](PKey pkey) { return pkey.matches(parsed->header.pkey); });
  handlers_.mad({.lid = parsed->header.slid,
                 .qp = parsed->management.source_qp,
                 .sl = ServiceLevel{parsed->header.service_channel},
                 .pkey = own == pkeys.end() ? parsed->header.pkey : *own},
                parsed->mad);
}

OpaPortCounters OmniPathPort::counters() const {
  OpaPortCounters all = counters_;
  all.rx_lost = attachment_->lost();
  return all;
}

}  // namespace weft::programs::vnic
