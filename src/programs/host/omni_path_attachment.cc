#include "programs/host/omni_path_attachment.h"

#include <algorithm>

#include "programs/host/daemon_request.h"

namespace weft::programs {
namespace {

constexpr int kBatchesOfTurn = 8;  // policy

[[nodiscard]] std::unexpected<Error> gone() {
  return fail(ErrorCode::NoSuchDevice, "the fabric or the host is gone");
}

[[nodiscard]] ListedOmniPathPort listed(const uabi::OmniPathPortInfo& port) {
  return {.host = port.host,
          .lid = port.lid,
          .is_active = port.is_active,
          .carries_ethernet = (port.capabilities & uabi::kOmniPathEthernetOnFabric) != 0,
          .serial = port.capability_changes};
}

[[nodiscard]] Result<uabi::OmniPathPortInfo> first_port(const os::PacketSocket& socket) {
  auto answer =
      ask_daemon(socket, uabi::AskOmniPathPorts{.version = uabi::kVersion, .host = own_host()});
  if (!answer) {
    return std::unexpected(std::move(answer.error()));
  }
  const auto* const ports = answer->message.get_if<uabi::OmniPathPorts>();
  if (ports == nullptr) {
    return fail(ErrorCode::Io, "the fabric's daemon answers something else");
  }
  if (ports->ports.empty()) {
    return fail(ErrorCode::NotFound, "the host has no Omni-Path port");
  }
  return ports->ports.front();
}

}  // namespace

Result<std::unique_ptr<OmniPathAttachment>> OmniPathAttachment::attach(
    const OmniPathWishes& wishes) {
  if (own_host().empty()) {
    return fail(ErrorCode::NoSuchDevice, "this program is on no host of a fabric (weft exec)");
  }
  auto control = connect_to_daemon();
  if (!control) {
    return std::unexpected(std::move(control.error()));
  }
  const auto port = first_port(*control);
  if (!port) {
    return std::unexpected(port.error());
  }
  auto attached = ask_daemon(*control, uabi::AttachOmniPath{.version = uabi::kVersion,
                                                            .host = own_host(),
                                                            .hca = port->hca,
                                                            .port = port->port,
                                                            .takes_ethernet = wishes.takes_ethernet,
                                                            .takes_answers = wishes.takes_answers,
                                                            .watches_ports = wishes.watches_ports,
                                                            .mad_methods = wishes.requests});
  if (!attached) {
    return std::unexpected(std::move(attached.error()));
  }
  auto state = attached->message.holds<uabi::OmniPathAttached>()
                   ? receive_answer(*control)
                   : fail(ErrorCode::Io, "the fabric's daemon answers something else");
  if (!state) {
    return std::unexpected(std::move(state.error()));
  }
  auto* const of_port = state->message.get_if<uabi::OmniPathPortState>();
  if (of_port == nullptr) {
    return fail(ErrorCode::Io, "the fabric's daemon does not say what the port is");
  }
  return std::make_unique<OmniPathAttachment>(
      *std::move(control), os::PacketSocket{std::move(attached->descriptors.front())},
      std::move(*of_port));
}

/// None: there is none.
Result<std::optional<uabi::Message>> OmniPathAttachment::next_of(const os::PacketSocket& socket) {
  const auto received = socket.receive(room_);
  if (!received) {
    if (received.error().code == ErrorCode::TryAgain) {
      return std::nullopt;
    }
    return gone();
  }
  auto message = uabi::decode(ByteSpan{room_}.first(received->bytes));
  if (!message) {
    return std::unexpected(std::move(message.error()));
  }
  return *std::move(message);
}

Result<OmniPathNews> OmniPathAttachment::take_news() {
  OmniPathNews news;
  while (true) {
    auto message = next_of(control_);
    if (!message) {
      return std::unexpected(std::move(message.error()));
    }
    if (!*message) {
      return news;
    }
    if (auto taken = take(**std::move(message), news); !taken) {
      return std::unexpected(std::move(taken.error()));
    }
  }
}

Result<void> OmniPathAttachment::take(uabi::Message message, OmniPathNews& news) {
  if (auto* const state = message.get_if<uabi::OmniPathPortState>()) {
    state_ = std::move(*state);
    news.has_port_changed = true;
  } else if (const auto* const joined = message.get_if<uabi::OmniPathGroupJoined>()) {
    news.joined.emplace_back(joined->mlid, joined->reason.empty());
  } else if (message.holds<uabi::OmniPathPortsChanged>()) {
    news.have_ports_changed = true;
  } else if (const auto* const part = message.get_if<uabi::OmniPathPorts>()) {
    std::ranges::transform(part->ports, std::back_inserter(listing_), listed);
    if (part->is_last) {
      news.listed = std::exchange(listing_, {});
    }
  } else if (const auto* const refused = message.get_if<uabi::Refused>()) {
    return fail(ErrorCode::NoSuchDevice, "{}", refused->reason);
  }
  return {};
}

Result<bool> OmniPathAttachment::receive(const std::function<void(ByteSpan packet)>& take) {
  for (int turn = 0; turn < kBatchesOfTurn; ++turn) {
    const auto message = next_of(packets_);
    if (!message) {
      return std::unexpected(message.error());
    }
    if (!*message) {
      return false;
    }
    const auto* const batch = (*message)->get_if<uabi::OmniPathPackets>();
    if (batch == nullptr) {
      return gone();
    }
    lost_ = batch->lost;
    for (const uabi::OmniPathOctets& packet : batch->packets) {
      take(packet.octets);
    }
  }
  return true;
}

void OmniPathAttachment::tell(const uabi::Message& message) {
  untold_.push_back(uabi::encode(message));
}

void OmniPathAttachment::ask_for_ports() {
  tell(uabi::AskOmniPathPorts{.version = uabi::kVersion, .host = ""});
}

void OmniPathAttachment::join(Lid mlid) { tell(uabi::JoinOmniPathGroup{mlid}); }
void OmniPathAttachment::leave(Lid mlid) { tell(uabi::LeaveOmniPathGroup{mlid}); }

void OmniPathAttachment::set_carries_ethernet(bool carries) {
  tell(uabi::SetOmniPathCapabilities{.mask = carries ? uabi::kOmniPathEthernetOnFabric
                                                     : std::uint16_t{}});
}

bool OmniPathAttachment::send(std::vector<std::byte> packet) {
  if (kept_ >= kMostKept) {
    return false;
  }
  if (batches_.empty() || batches_.back().packets.size() == uabi::kMaxOmniPathPackets ||
      last_bytes_ + packet.size() > uabi::kMaxOmniPathBatchBytes) {
    batches_.emplace_back();
    last_bytes_ = 0;
  }
  last_bytes_ += packet.size();
  batches_.back().packets.push_back({std::move(packet)});
  ++kept_;
  return true;
}

Result<void> OmniPathAttachment::flush() {
  while (!untold_.empty()) {
    const auto sent = control_.send(untold_.front(), {});
    if (!sent && sent.error().code == ErrorCode::TryAgain) {
      break;
    }
    if (!sent) {
      return gone();
    }
    untold_.pop_front();
  }
  return send_batches();
}

Result<void> OmniPathAttachment::send_batches() {
  while (!batches_.empty()) {
    const auto sent = packets_.send(uabi::encode(batches_.front()), {});
    if (!sent && sent.error().code == ErrorCode::TryAgain) {
      break;
    }
    if (!sent) {
      return gone();
    }
    kept_ -= batches_.front().packets.size();
    batches_.pop_front();
  }
  return {};
}

}  // namespace weft::programs
