// Logins of a target: srpt_cm_req_recv.

#include <algorithm>
#include <utility>

#include "ulp/srp/target.h"
#include "wire/srp/information_unit.h"

namespace weft::srp {
namespace {

using Reason = wire::SrpLoginRejReason;

constexpr std::uint16_t kSupportedFormats = wire::kSrpDirectFormat | wire::kSrpIndirectFormat;

[[nodiscard]] Result<wire::SrpLoginReq> parse_login(const LoginRequest& request) {
  if (request.form == LoginForm::IbCm) {
    return wire::parse<wire::SrpLoginReq>(request.private_data);
  }
  const auto login = wire::parse<wire::SrpLoginReqRdmaCm>(request.private_data);
  if (!login) {
    return std::unexpected(login.error());
  }
  return wire::from_rdma_cm(*login);
}

/// Where immediate data begins; nothing if this login has none.
[[nodiscard]] std::uint16_t immediate_offset(const wire::SrpLoginReq& login) {
  return login.immediate_data && login.immediate_offset != 0 ? login.immediate_offset
                                                             : wire::kSrpDefaultImmediateOffset;
}

}  // namespace

std::optional<wire::SrpPortId> target_of(const LoginRequest& request) {
  const auto login = parse_login(request);
  return login ? std::optional{login->target_port_id} : std::nullopt;
}

/// In the order of R-SRPT-6.
std::expected<void, Reason> Target::check(const Port& port, const wire::SrpLoginReq& login,
                                          const Initiator& initiator,
                                          std::size_t channels_left) const {
  if (login.requested_iu_length < kMinRequestIu ||
      login.requested_iu_length > port.options.max_initiator_iu) {
    return std::unexpected(Reason::RequestIuTooLarge);
  }
  if (!port.enabled) {
    return std::unexpected(Reason::InsufficientResources);
  }
  if (!port.has_name(login.target_port_id)) {
    return std::unexpected(Reason::UnableToAssociateChannel);
  }
  if ((login.required_formats & ~kSupportedFormats) != 0) {
    return std::unexpected(Reason::UnsupportedDescriptorFormat);
  }
  const bool is_multichannel = login.multichannel != wire::SrpMultichannel::Single;
  if (is_multichannel && (login.multichannel != wire::SrpMultichannel::Independent ||
                          !port.options.allows_multichannel)) {
    return std::unexpected(Reason::MultichannelUnsupported);
  }
  if (!port.group_of(initiator) || channels_left == 0) {
    return std::unexpected(Reason::ChannelLimitReached);
  }
  return {};
}

std::size_t Target::siblings(const std::string& port, const wire::SrpPortId& id) const {
  return static_cast<std::size_t>(std::ranges::count_if(channels_, [&](const auto& one) {
    const Session& session = one.second;
    return session.port == port && session.initiator.port_id == id &&
           session.channel->state() < ChannelState::Disconnecting;
  }));
}

/// A login without multi-channel ends earlier channels of the nexus. Those whose tasks have not
/// ended yet are returned: what they still write must not follow what the new channel writes.
std::vector<ChannelId> Target::end_predecessors(const std::string& port,
                                                const wire::SrpLoginReq& login) {
  std::vector<ChannelId> earlier;
  for (const auto& [id, session] : channels_) {
    if (session.port == port && session.initiator.port_id == login.initiator_port_id &&
        !session.nexus_closed) {
      earlier.push_back(id);
    }
  }
  for (const ChannelId id : earlier) {
    channels_.at(id).channel->close();
  }
  std::erase_if(earlier, [this](ChannelId id) { return channels_.at(id).nexus_closed; });
  return earlier;
}

std::expected<ChannelId, Reason> Target::log_in(const std::string& port_name,
                                                const LoginRequest& request,
                                                std::shared_ptr<TargetConnection> by) {
  wire::SrpLoginRej rejection{.reason = Reason::UnableToEstablishChannel,
                              .supported_formats = kSupportedFormats};
  const auto reject = [&](Reason reason) {
    rejection.reason = reason;
    ++counters_.refusals[reason];
    by->reject(wire::pack(rejection));
    return std::unexpected(reason);
  };
  const auto found = find(port_name);
  const auto login = parse_login(request);
  if (!found || !login || login->opcode != wire::SrpOpcode::LoginReq) {
    return reject(Reason::UnableToEstablishChannel);
  }
  rejection.tag = login->tag;
  const Port& port = **found;
  const Initiator initiator{
      .port_id = login->initiator_port_id, .gid = request.source_gid, .ip = request.source_ip};
  const std::size_t in_use = channels_of(port_name);
  const bool is_single = login->multichannel == wire::SrpMultichannel::Single;
  const std::size_t replaced = is_single ? siblings(port_name, login->initiator_port_id) : 0;
  const std::size_t limit = port.options.max_channels + replaced;
  if (const auto sound = check(port, *login, initiator, limit - std::min(limit, in_use)); !sound) {
    return reject(sound.error());
  }
  if (const auto prepared = by->prepare(); !prepared) {
    return reject(prepared.error().code == ErrorCode::OutOfMemory
                      ? Reason::InsufficientResources
                      : Reason::UnableToEstablishChannel);
  }
  const auto nexus =
      scsi_.open_nexus(port.options.scsi_port, scsi::srp_transport_id(login->initiator_port_id),
                       !is_single);  // R-SRPT-6: channels of one session
  if (!nexus) {
    return reject(Reason::InsufficientResources);
  }
  return open_channel(port, *login, initiator, *nexus, std::move(by));
}

ChannelId Target::open_channel(const Port& port, const wire::SrpLoginReq& login,
                               const Initiator& initiator, scsi::NexusId nexus,
                               std::shared_ptr<TargetConnection> by) {
  const PortOptions& limits = port.options;
  const bool is_single = login.multichannel == wire::SrpMultichannel::Single;
  wire::SrpMultichannelResult result = wire::SrpMultichannelResult::None;
  if (siblings(limits.name, login.initiator_port_id) != 0) {
    result = is_single ? wire::SrpMultichannelResult::Terminated
                       : wire::SrpMultichannelResult::Maintained;
  }
  std::vector<ChannelId> predecessors;
  if (is_single) {
    predecessors = end_predecessors(limits.name, login);
  }
  const ChannelId id{next_channel_++};
  ++counters_.logins;
  static_assert(wire::kSizeOf<wire::SrpRsp> + scsi::SenseData::kMaxBytes <= kMinRequestIu,
                "the shortest response that an initiator receives has room for any sense data");
  const std::uint32_t max_target_iu = std::max<std::uint32_t>(
      std::min(limits.max_rsp_size, login.requested_iu_length), kMinRequestIu);
  const ChannelOptions options{.request_limit = limits.request_limit,
                               .max_initiator_iu = limits.max_initiator_iu,
                               .max_target_iu = max_target_iu,
                               .immediate_offset = immediate_offset(login),
                               .max_transfer_bytes = limits.max_rdma_size};
  const wire::SrpLoginRsp response{
      .request_limit_delta = limits.request_limit,
      .tag = login.tag,
      .max_initiator_iu_length = limits.max_initiator_iu,
      .max_target_iu_length = max_target_iu,
      .supported_formats = kSupportedFormats,
      .immediate_data = login.immediate_data && limits.offers_immediate_data,
      .multichannel = result};
  ChannelOwner& owner = *this;
  TargetConnection& connection = *by;
  Session& session = channels_[id];
  session = {.channel = std::make_unique<Channel>(owner, id, connection, scsi_, nexus, options),
             .connection = std::move(by),
             .port = limits.name,
             .group = port.group_of(initiator).value_or(kFirstGroup),
             .initiator = initiator,
             .login_rsp = wire::to_unit(response),
             .predecessors = std::move(predecessors)};
  accept_if_due(session);
  return id;
}

}  // namespace weft::srp
