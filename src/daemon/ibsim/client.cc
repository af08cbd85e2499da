#include "daemon/ibsim/client.h"

#include <algorithm>
#include <utility>

#include "mad/agent_table.h"
#include "wire/mad/mad.h"

namespace weft::daemon {
namespace {

using wire::MadMethod;
using Header = wire::MadHeader;
constexpr std::size_t kHeaderBytes = wire::kSizeOf<Header>;

[[nodiscard]] Header header_of(ByteSpan mad) {
  return wire::unpack<Header>(mad.first<kHeaderBytes>());
}

/// True for methods that have a response (IBTA vol 1 §13.4.5, §15.2.2).
[[nodiscard]] bool wants_answer(MadMethod method) {
  switch (method) {
    case MadMethod::Get:
    case MadMethod::Set:
    case MadMethod::Report:
    case MadMethod::GetTable:
    case MadMethod::GetTraceTable:
    case MadMethod::GetMulti:
    case MadMethod::Delete:
      return true;
    case MadMethod::Send:
    case MadMethod::Trap:
    case MadMethod::TrapRepress:
    case MadMethod::GetResp:
    case MadMethod::ReportResp:
    case MadMethod::GetTableResp:
    case MadMethod::GetMultiResp:
    case MadMethod::DeleteResp:
      return false;
  }
  return false;
}

/// A class for which a subnet manager receives requests.
struct SmClass {
  std::uint8_t mgmt_class;
  std::uint8_t version;
  std::uint8_t rmpp_version;
};
constexpr SmClass kSmClasses[] = {
    {0x01, 1, 0},
    {0x81, 1, 0},
    {0x03, 2, 1}
};
constexpr MadMethod kSmMethods[] = {
    MadMethod::Get,         MadMethod::Set,           MadMethod::Trap,
    MadMethod::TrapRepress, MadMethod::Report,        MadMethod::GetTable,
    MadMethod::Delete,      MadMethod::GetTraceTable, MadMethod::GetMulti,
};

[[nodiscard]] mad::MethodSet sm_methods() {
  mad::MethodSet set;
  for (const MadMethod method : kSmMethods) {
    set.set(static_cast<std::size_t>(method));
  }
  return set;
}

}  // namespace

IbsimClient::IbsimClient(const node::UmadPortAccess& access) : file_(access) {}

/// The agent for requests on QP0 or QP1, created with the first MAD; the program's own agents are
/// known to its library only.
Result<std::uint32_t> IbsimClient::agent_for(bool is_smp) {
  auto& known = asking_.at(is_smp ? 0 : 1);
  if (!known) {
    constexpr std::uint8_t kDirected = 0x81;
    const auto made =
        file_.register_agent({.mgmt_class = is_smp ? kDirected : std::uint8_t{0},
                              .class_version = 1,
                              .rmpp_version = is_smp ? std::uint8_t{0} : std::uint8_t{1},
                              .methods = {}});
    if (!made) {
      return made;
    }
    known = *made;
  }
  return *known;
}

bool IbsimClient::handle(ByteSpan datagram, Instant now) {
  const auto packet = read_ibsim<IbsimPacket>(datagram);
  const std::uint64_t length =
      packet ? std::min<std::uint64_t>(swapped(packet->length_be), wire::kMadBytes) : 0;
  if (length < kHeaderBytes) {
    return false;
  }
  const Header header = header_of(packet->mad);
  const bool is_smp = mad::belongs_to(header.mgmt_class, mad::InterfaceKind::Smi);
  const auto agent = agent_for(is_smp);
  if (!agent) {
    return false;
  }
  node::UmadEnvelope envelope{.agent = *agent, .address = {.lid = lid_from_ibsim(packet->dlid_be)}};
  envelope.address.qp = Qpn{swapped(packet->dqp_be) & 0xFF'FFFF};
  if (wants_answer(header.method)) {
    const Key key{*agent, static_cast<std::uint32_t>(header.transaction_id)};
    if (open_.size() >= kMaxOpen) {
      return false;
    }
    if (!open_.emplace(key, header.transaction_id).second) {
      return true;  // a retry; the node retries by itself
    }
    envelope.timeout_ms = is_smp ? kSmpTimeoutMs : kGmpTimeoutMs;
    envelope.retries = is_smp ? 0 : kGmpRetries;
  }
  file_.send(envelope, ByteSpan{packet->mad}.first(static_cast<std::size_t>(length)), now);
  return true;
}

/// Restores the original TID. Returns false if the program did not send the request, or expects no
/// response.
bool IbsimClient::restore_tid(std::uint32_t agent, IbsimPacket& packet) {
  Header header = header_of(packet.mad);
  const auto low = static_cast<std::uint32_t>(header.transaction_id);
  const auto asked = open_.extract(Key{agent, low});
  if (asked.empty()) {
    return false;
  }
  header.transaction_id = asked.mapped();
  const auto bytes = wire::pack(header);
  copy_bytes(packet.mad, bytes);
  return true;
}

std::optional<IbsimPacket> IbsimClient::poll() {
  while (!file_.is_empty()) {
    const node::UmadReceived& received = file_.front();
    IbsimPacket packet{.slid_be = lid_to_ibsim(received.envelope.address.lid),
                       .sqp_be = swapped(received.envelope.address.qp.value()),
                       .status_be = swapped(static_cast<std::uint32_t>(received.error))};
    // A response by RMPP that is longer is truncated, as with ibsim.
    const std::size_t length = std::min(received.mad.size(), packet.mad.size());
    copy_bytes(packet.mad, ByteSpan{received.mad}.first(length));
    packet.length_be = swapped(std::uint64_t{received.error == 0 ? length : packet.mad.size()});
    const bool is_asked_for =
        received.error != 0 || wire::is_response(header_of(packet.mad).method);
    const bool is_wanted = !is_asked_for || restore_tid(received.envelope.agent, packet);
    file_.pop();
    if (is_wanted) {
      return packet;
    }
  }
  return std::nullopt;
}

Result<void> IbsimClient::set_sm(bool is_sm, Instant now) {
  if (is_sm == this->is_sm()) {
    return {};
  }
  if (is_sm) {
    return become_sm(now);
  }
  for (const std::uint32_t agent : std::exchange(sm_agents_, {})) {
    static_cast<void>(file_.unregister_agent(agent, now));
  }
  return {};
}

Result<void> IbsimClient::become_sm(Instant now) {
  for (const SmClass& each : kSmClasses) {
    const auto agent = file_.register_agent({.mgmt_class = each.mgmt_class,
                                             .class_version = each.version,
                                             .rmpp_version = each.rmpp_version,
                                             .methods = sm_methods()});
    if (!agent) {
      static_cast<void>(set_sm(false, now));  // registers all classes or none
      return std::unexpected(agent.error());
    }
    sm_agents_.push_back(*agent);
  }
  return {};
}

}  // namespace weft::daemon
