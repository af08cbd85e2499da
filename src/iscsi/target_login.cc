// The login phase, as the target goes through it (RFC 7143 §6.3, §11.12, §11.13).

#include <algorithm>
#include <array>
#include <utility>

#include "iscsi/target_connection.h"
#include "iscsi/target_server.h"

namespace weft::iscsi {

using wire::iscsi::LoginRequest;
using wire::iscsi::LoginResponse;
using wire::iscsi::LoginStage;
using wire::iscsi::LoginStatus;

namespace {

constexpr std::uint32_t kMaxLoginRequests = 64;  // policy

struct StageChange {
  LoginStage from{};
  LoginStage to{};
};
// RFC 7143 §11.12.3: what T=1 may ask for.
constexpr auto kStageChanges = std::to_array<StageChange>({
    {LoginStage::SecurityNegotiation,         LoginStage::LoginOperationalNegotiation},
    {LoginStage::SecurityNegotiation,         LoginStage::FullFeature                },
    {LoginStage::LoginOperationalNegotiation, LoginStage::FullFeature                },
});

[[nodiscard]] bool is_stage_change(LoginStage from, LoginStage to) {
  return std::ranges::any_of(kStageChanges, [&](const StageChange& change) {
    return change.from == from && change.to == to;
  });
}

[[nodiscard]] LoginStatus status_of(const Error& error) {
  return error.code == ErrorCode::PermissionDenied ? LoginStatus::AuthenticationFailure
                                                   : LoginStatus::InitiatorError;
}

}  // namespace

void TargetConnection::handle_login(const ReceivedPdu& pdu, Instant now) {
  const auto request = pdu.as<LoginRequest>();
  if (request.opcode != wire::iscsi::Opcode::LoginRequest) {
    end(Datamover::Ending::AtOnce, "a connection begins with a login", false, now);
    return;
  }
  LoginResponse response{.current_stage = request.current_stage,
                         .isid = request.isid,
                         .tsih = request.tsih,
                         .initiator_task_tag = request.initiator_task_tag,
                         .exp_cmd_sn = request.cmd_sn,
                         .max_cmd_sn = request.cmd_sn};
  TextWriter answers;
  login_->text += to_characters(pdu.data);
  LoginStatus status = LoginStatus::Success;
  if (++login_->requests > kMaxLoginRequests || login_->text.size() > kMaxTextBytes ||
      (request.continues && request.transit)) {  // RFC 7143 §11.12.2
    status = LoginStatus::InitiatorError;
  } else if (!request.continues) {
    status = take_login(request, response, answers, now);
    if (login_) {
      login_->text.clear();
    }
  }
  if (status != LoginStatus::Success) {
    refuse_login(response, status, now);
    return;
  }
  if (session_ != nullptr) {
    response.exp_cmd_sn = session_->exp_cmd_sn();
    response.max_cmd_sn = session_->max_cmd_sn();
  }
  response.stat_sn = stat_sn_++;
  datamover_.send_control(text_pdu(response, answers.text()));
  if (phase_ == Phase::FullFeature) {
    datamover_.enable(parameters_.header_digest, parameters_.data_digest,
                      preferences_.values.max_recv_data_segment_length);
    login_.reset();
  }
}

void TargetConnection::refuse_login(LoginResponse& response, LoginStatus status, Instant now) {
  response.status = status;
  response.transit = false;
  response.exp_cmd_sn = 0;  // RFC 7143 §11.13.5: without meaning after a failure
  response.max_cmd_sn = 0;
  response.stat_sn = stat_sn_++;
  datamover_.send_control(OutgoingPdu{response});
  end(Datamover::Ending::AfterOutput, "the login is refused", false, now);
}

LoginStatus TargetConnection::take_login(const LoginRequest& request, LoginResponse& response,
                                         TextWriter& answers, Instant now) {
  if (request.version_min > 0) {  // RFC 7143 §11.12.5: 0x00 is the only version
    return LoginStatus::UnsupportedVersion;
  }
  const auto pairs = parse_text(login_->text);
  if (!pairs) {
    return LoginStatus::InitiatorError;
  }
  if (!login_->begun) {
    if (const LoginStatus status = begin_login(request, *pairs); status != LoginStatus::Success) {
      return status;
    }
  } else if (request.current_stage != login_->stage || request.cid != cid_ ||
             request.isid != login_->isid) {
    return LoginStatus::InitiatorError;
  }
  const bool is_security = login_->stage == LoginStage::SecurityNegotiation;
  if (const LoginStatus status =
          is_security ? take_security(*pairs, answers) : take_operational(*pairs, answers);
      status != LoginStatus::Success) {
    return status;
  }
  if (!request.transit) {
    return LoginStatus::Success;
  }
  if (!is_stage_change(request.current_stage, request.next_stage)) {
    return LoginStatus::InitiatorError;
  }
  if (!may_leave(login_->stage)) {
    return LoginStatus::Success;  // T=0: not yet
  }
  response.transit = true;
  response.next_stage = request.next_stage;
  if (request.next_stage != LoginStage::FullFeature) {
    login_->stage = request.next_stage;
    return LoginStatus::Success;
  }
  return enter_full_feature(request, response, now);
}

LoginStatus TargetConnection::begin_login(const LoginRequest& request, const TextPairs& pairs) {
  const auto initiator = find_value(pairs, "InitiatorName");
  const auto target = find_value(pairs, "TargetName");
  const auto type = find_value(pairs, "SessionType").value_or("Normal");
  if (!initiator) {
    return LoginStatus::MissingParameter;
  }
  if (type != "Normal" && type != "Discovery") {
    return LoginStatus::SessionTypeNotSupported;
  }
  login_->begun = true;
  login_->exp_stat_sn = request.exp_stat_sn;
  login_->stage = request.current_stage;
  login_->isid = request.isid;
  login_->tsih = request.tsih;
  login_->initiator = *initiator;
  login_->is_discovery = type == "Discovery";
  cid_ = request.cid;
  if (!check_iscsi_name(login_->initiator) ||
      (login_->stage != LoginStage::SecurityNegotiation &&
       login_->stage != LoginStage::LoginOperationalNegotiation)) {
    return LoginStatus::InitiatorError;
  }
  if (!login_->is_discovery) {
    if (!target) {
      return LoginStatus::MissingParameter;
    }
    const NodeOptions* const node = server_.find_node(*target);
    if (node == nullptr) {
      return LoginStatus::NotFound;
    }
    if (!node->initiators.empty() &&
        std::ranges::find(node->initiators, login_->initiator) == node->initiators.end()) {
      return LoginStatus::AuthorizationFailure;
    }
    login_->target = *target;
    login_->policy = node->chap;
  }
  login_->is_secure = !login_->policy.is_required();
  if (login_->stage != LoginStage::SecurityNegotiation && !login_->is_secure) {
    return LoginStatus::AuthenticationFailure;  // RFC 7143 §6.3.3: it cannot be skipped
  }
  return LoginStatus::Success;
}

LoginStatus TargetConnection::take_security(const TextPairs& pairs, TextWriter& answers) {
  if (!std::exchange(login_->has_declared, true) && !login_->is_discovery) {
    answers.add("TargetPortalGroupTag", fmt::format("{}", server_.options_.portal_group_tag));
  }
  if (const auto methods = find_value(pairs, "AuthMethod"); methods && !login_->chap) {
    const std::vector<std::string_view> offered = split_list(*methods);
    const std::string_view wanted = login_->policy.is_required() ? "CHAP" : "None";
    if (std::ranges::find(offered, wanted) == offered.end()) {
      return LoginStatus::AuthenticationFailure;
    }
    answers.add("AuthMethod", wanted);
    if (login_->policy.is_required()) {
      login_->chap.emplace(login_->policy, server_.environment_.chap_library());
    }
    return LoginStatus::Success;
  }
  const bool speaks_chap = std::ranges::any_of(
      pairs, [](const TextPair& pair) { return pair.key.starts_with("CHAP_"); });
  if (!speaks_chap) {
    return LoginStatus::Success;
  }
  if (!login_->chap) {
    return LoginStatus::InitiatorError;
  }
  if (const auto taken = login_->chap->take(pairs, answers); !taken) {
    return status_of(taken.error());
  }
  login_->is_secure = login_->is_secure || login_->chap->is_done();
  return LoginStatus::Success;
}

LoginStatus TargetConnection::take_operational(const TextPairs& pairs, TextWriter& answers) {
  const bool is_leading = login_->tsih == 0;
  if (!login_->negotiation) {
    const TargetSession* const session = server_.find_session(login_->tsih);
    Parameters agreed;
    if (!is_leading && session != nullptr) {
      agreed = session->parameters();
      agreed.header_digest = false;
      agreed.data_digest = false;
      agreed.max_recv_data_segment_length = Parameters{}.max_recv_data_segment_length;
    }
    login_->negotiation.emplace(preferences_, agreed);
    if (!std::exchange(login_->has_declared, true) && !login_->is_discovery) {
      answers.add("TargetPortalGroupTag", fmt::format("{}", server_.options_.portal_group_tag));
    }
    answers.add("MaxRecvDataSegmentLength",
                fmt::format("{}", preferences_.values.max_recv_data_segment_length));
    const NodeOptions* const node = server_.find_node(login_->target);
    if (node != nullptr && !node->alias.empty()) {
      answers.add("TargetAlias", node->alias);
    }
  }
  const NegotiationScene scene{
      .role = Role::Target, .leading = is_leading, .discovery = login_->is_discovery};
  for (const TextPair& pair : pairs) {
    const bool names_the_ends = pair.key == "InitiatorName" || pair.key == "TargetName" ||
                                pair.key == "SessionType" || pair.key == "AuthMethod";
    if (names_the_ends) {
      continue;  // begin_login() has them; AuthMethod of who begins at this stage means nothing
    }
    if (!login_->negotiation->take(pair, scene, answers)) {
      return LoginStatus::InitiatorError;
    }
  }
  return LoginStatus::Success;
}

bool TargetConnection::may_leave(LoginStage stage) const {
  return stage != LoginStage::SecurityNegotiation || login_->is_secure;
}

LoginStatus TargetConnection::enter_full_feature(const LoginRequest& request,
                                                 LoginResponse& response, Instant now) {
  parameters_ = login_->negotiation ? login_->negotiation->agreed() : Parameters{};
  parameters_.first_burst_length =  // RFC 7143 §13.14
      std::min(parameters_.first_burst_length, parameters_.max_burst_length);
  const LoginStatus status =
      request.tsih == 0 ? create_session(request, now) : join_session(request, now);
  if (status != LoginStatus::Success) {
    return status;
  }
  session_->attach(cid_, *this);
  parameters_.hello_required = session_->parameters().hello_required;  // session-wide
  static_cast<void>(datamover_.agree(parameters_));
  response.tsih = session_->identity().tsih;
  phase_ = Phase::FullFeature;
  return LoginStatus::Success;
}

LoginStatus TargetConnection::create_session(const LoginRequest& request, Instant now) {
  if (!login_->is_discovery) {  // session reinstatement (RFC 7143 §6.3.5)
    if (TargetSession* const old =
            server_.find_session(login_->initiator, request.isid, login_->target)) {
      server_.close_session(*old, "the session is reinstated", now);
    }
  }
  const NodeOptions* const node = server_.find_node(login_->target);
  if (!login_->is_discovery && node == nullptr) {
    return LoginStatus::TargetRemoved;
  }
  const std::optional<std::uint16_t> tsih = server_.free_tsih();
  if (!tsih) {
    return LoginStatus::OutOfResources;
  }
  SessionIdentity identity{.initiator = login_->initiator,
                           .isid = request.isid,
                           .tsih = *tsih,
                           .target = login_->target,
                           .is_discovery = login_->is_discovery};
  if (!login_->is_discovery) {
    const auto nexus = node->scsi->open_nexus(
        node->port, scsi::iscsi_transport_id(login_->initiator, request.isid));
    if (!nexus) {
      return LoginStatus::OutOfResources;
    }
    identity.scsi = node->scsi;
    identity.nexus = *nexus;
  }
  session_ = &server_.add_session(identity, parameters_, request.cmd_sn);
  return LoginStatus::Success;
}

LoginStatus TargetConnection::join_session(const LoginRequest& request, Instant now) {
  TargetSession* const session = server_.find_session(request.tsih);
  if (session == nullptr) {
    return LoginStatus::SessionDoesNotExist;
  }
  const SessionIdentity& identity = session->identity();
  if (identity.initiator != login_->initiator || identity.isid != request.isid ||
      identity.target != login_->target || login_->is_discovery) {
    return LoginStatus::CannotIncludeInSession;
  }
  const auto old = session->connections().find(request.cid);
  if (old != session->connections().end()) {  // connection reinstatement (RFC 7143 §6.3.4)
    const bool recovers = session->parameters().error_recovery_level == 2;
    TargetConnection& replaced = *old->second;
    session->hold_open(true);
    replaced.end(Datamover::Ending::AtOnce, "the connection is reinstated", recovers, now);
    session->hold_open(false);
  } else if (session->connections().size() >= session->parameters().max_connections) {
    return LoginStatus::TooManyConnections;
  }
  session->acknowledge_lost(request.cid, login_->exp_stat_sn);  // RFC 7143 §11.12.9
  session_ = session;
  return LoginStatus::Success;
}

}  // namespace weft::iscsi
