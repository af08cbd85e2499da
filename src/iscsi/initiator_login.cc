#include "iscsi/initiator_login.h"

#include <array>
#include <string_view>
#include <utility>

namespace weft::iscsi {

using wire::iscsi::LoginRequest;
using wire::iscsi::LoginResponse;
using wire::iscsi::LoginStage;
using wire::iscsi::LoginStatus;

namespace {

// What this end offers, in this order; a discovery session offers what matters in one.
constexpr auto kOffers = std::to_array<std::string_view>(
    {"HeaderDigest", "DataDigest", "MaxRecvDataSegmentLength", "DefaultTime2Wait",
     "DefaultTime2Retain", "ErrorRecoveryLevel", "MaxConnections", "InitialR2T", "ImmediateData",
     "MaxBurstLength", "FirstBurstLength", "MaxOutstandingR2T", "DataPDUInOrder",
     "DataSequenceInOrder"});

// What holds before a key is mentioned: the defaults, and the session's values for what joins it.
[[nodiscard]] Parameters agreed_before(const LoginPlace& place) {
  if (place.tsih == 0) {
    return {};
  }
  Parameters agreed = place.session;
  const Parameters defaults;
  agreed.header_digest = defaults.header_digest;
  agreed.data_digest = defaults.data_digest;
  agreed.max_recv_data_segment_length = defaults.max_recv_data_segment_length;
  return agreed;
}

}  // namespace

InitiatorLogin::InitiatorLogin(const InitiatorOptions& options, ChapLibrary& library,
                               const LoginPlace& place)
    : options_(options),
      library_(library),
      place_(place),
      stage_(options.chap.own || options.chap.is_required()
                 ? LoginStage::SecurityNegotiation
                 : LoginStage::LoginOperationalNegotiation),
      negotiation_(options.preferences, agreed_before(place)),
      exp_stat_sn_(place.exp_stat_sn),
      tsih_(place.tsih) {}

OutgoingPdu InitiatorLogin::begin() {
  text_.add("InitiatorName", options_.name);
  if (is_leading()) {  // of the leading login alone (RFC 7143 §13.21): LIO knows it in no other
    text_.add("SessionType", options_.target.empty() ? "Discovery" : "Normal");
  }
  if (!options_.target.empty()) {
    text_.add("TargetName", options_.target);
  }
  if (stage_ == LoginStage::SecurityNegotiation) {
    text_.add("AuthMethod", options_.chap.is_required() ? "CHAP" : "CHAP,None");
    return request(false);
  }
  offer_operational();
  return request(true);
}

OutgoingPdu InitiatorLogin::request(bool transit) {
  LoginRequest header;
  header.transit = transit;
  header.current_stage = stage_;
  header.next_stage = !transit ? LoginStage::SecurityNegotiation
                      : stage_ == LoginStage::SecurityNegotiation
                          ? LoginStage::LoginOperationalNegotiation
                          : LoginStage::FullFeature;
  header.isid = options_.isid;
  header.tsih = tsih_;
  header.cid = place_.cid;
  header.cmd_sn = place_.cmd_sn;
  header.exp_stat_sn = exp_stat_sn_;
  return text_pdu(header, text_.take());
}

void InitiatorLogin::offer_operational() {
  for (const std::string_view name : kOffers) {
    const KeyRow& key = *find_key(name);
    const bool is_of_connection = key.use != KeyUse::Leading;
    if ((!options_.target.empty() || key.in_discovery) && (is_leading() || is_of_connection)) {
      negotiation_.offer(name, text_);
    }
  }
  if (options_.preferences.values.rdma_extensions) {  // RFC 7145 §6.3
    if (is_leading()) {
      negotiation_.offer("RDMAExtensions", text_);
      if (options_.preferences.values.hello_required) {  // RFC 7145 §6.10
        negotiation_.offer("iSERHelloRequired", text_);
      }
    }
    if (!options_.target.empty()) {
      negotiation_.offer("TargetRecvDataSegmentLength", text_);
      negotiation_.offer("InitiatorRecvDataSegmentLength", text_);
    }
  }
}

Result<std::optional<OutgoingPdu>> InitiatorLogin::take(const ReceivedPdu& pdu) {
  const auto response = pdu.as<LoginResponse>();
  const bool first = exchanges_ == 0;
  if (++exchanges_ > kMaxExchanges) {
    return fail(ErrorCode::InvalidArgument, "login does not end within {} responses",
                kMaxExchanges);
  }
  if (!first && response.stat_sn != exp_stat_sn_ && response.status == LoginStatus::Success) {
    return fail(ErrorCode::InvalidArgument, "StatSN is {} in a login, and not {}", response.stat_sn,
                exp_stat_sn_);
  }
  exp_stat_sn_ = response.stat_sn + 1;
  last_ = response;
  received_ += to_characters(pdu.data);
  if (received_.size() > kMaxTextBytes) {
    return fail(ErrorCode::InvalidArgument, "the text of a login is longer than {} octets",
                kMaxTextBytes);
  }
  if (response.status == LoginStatus::Success && response.continues) {  // RFC 7143 §6.2
    return std::optional{request(false)};
  }
  const std::string received = std::exchange(received_, {});
  const auto pairs = parse_text(received);
  if (!pairs) {
    return std::unexpected(pairs.error());
  }
  if (response.status != LoginStatus::Success) {
    moved_to_ = find_value(*pairs, "TargetAddress").value_or("");
    if (auto refused = take_failure(response); !refused) {
      return std::unexpected(refused.error());
    }
    return std::optional<OutgoingPdu>{};
  }
  if (response.current_stage != stage_) {
    return fail(ErrorCode::InvalidArgument, "the target is in another stage of the login");
  }
  if (auto taken = stage_ == LoginStage::SecurityNegotiation
                       ? take_security(*pairs, response.transit)
                       : take_operational(*pairs);
      !taken) {
    return std::unexpected(taken.error());
  }
  if (!response.transit) {
    const bool security = stage_ == LoginStage::SecurityNegotiation;
    // Mutual CHAP proves the target with its answer to what leaves the stage (RFC 7143 §12.1.3).
    return std::optional{request(!security || !text_.text().starts_with("CHAP_A"))};
  }
  if (!is_leading() && response.tsih != tsih_) {
    return fail(ErrorCode::InvalidArgument, "the target puts the connection into another session");
  }
  tsih_ = response.tsih;
  if (response.next_stage == LoginStage::FullFeature) {
    if (auto ended = check_end(); !ended) {
      return std::unexpected(ended.error());
    }
    done_ = true;
    return std::optional<OutgoingPdu>{};
  }
  if (stage_ != LoginStage::SecurityNegotiation || !is_secure() ||
      response.next_stage != LoginStage::LoginOperationalNegotiation) {
    return fail(ErrorCode::InvalidArgument, "the target goes to a stage that is not next");
  }
  stage_ = LoginStage::LoginOperationalNegotiation;
  offer_operational();
  return std::optional{request(true)};
}

// Whether the target may end the login here.
Result<void> InitiatorLogin::check_end() const {
  if (!is_secure() || (stage_ == LoginStage::SecurityNegotiation && !method_chosen_)) {
    return fail(ErrorCode::InvalidArgument, "the target ends the login before it is over");
  }
  if (negotiation_.awaits_answers()) {
    return fail(ErrorCode::InvalidArgument, "the target ends the login without an answer to {}",
                negotiation_.awaited());
  }
  if (!text_.empty()) {
    return fail(ErrorCode::InvalidArgument,
                "the target ends the login with an offer that waits for an answer: {}",
                text_.text().substr(0, text_.text().find('\0')));
  }
  return {};
}

Result<void> InitiatorLogin::take_security(const TextPairs& pairs, bool transit) {
  if (method_chosen_) {
    return chap_ && !chap_->is_done() && !pairs.empty() ? chap_->take(pairs, text_)
                                                        : Result<void>{};
  }
  const auto method = find_value(pairs, "AuthMethod");
  method_chosen_ = true;
  if (method == "CHAP") {
    chap_.emplace(options_.chap, library_).start(text_);
    return transit ? fail(ErrorCode::PermissionDenied, "the target leaves out the CHAP it chose")
                   : Result<void>{};
  }
  if (method != "None" || options_.chap.is_required()) {
    return fail(ErrorCode::PermissionDenied, "the target does not prove itself: AuthMethod={}",
                method.value_or(""));
  }
  return {};
}

Result<void> InitiatorLogin::take_operational(const TextPairs& pairs) {
  const NegotiationScene scene{.role = Role::Initiator,
                               .leading = is_leading(),
                               .discovery = options_.target.empty(),
                               .full_feature = false};
  for (const TextPair& pair : pairs) {
    if (auto taken = negotiation_.take(pair, scene, text_); !taken) {
      return taken;
    }
  }
  return {};
}

Result<void> InitiatorLogin::take_failure(const LoginResponse& response) {
  const auto status = static_cast<unsigned>(response.status);
  switch (status >> 8) {
    case 1:
      if (!moved_to_.empty()) {
        return {};
      }
      return fail(ErrorCode::Refused, "the target has moved, and does not say where to");
    case 2:
      if (response.status == LoginStatus::AuthenticationFailure ||
          response.status == LoginStatus::AuthorizationFailure) {
        return fail(ErrorCode::PermissionDenied,
                    "the target does not admit {}: check names and secrets", options_.name);
      }
      if (response.status == LoginStatus::NotFound) {
        return fail(ErrorCode::NotFound, "there is no target {}", options_.target);
      }
      return fail(ErrorCode::Refused, "the target refuses the login with status {:04x}h", status);
    default:
      return fail(ErrorCode::TryAgain, "the target cannot take the login now: status {:04x}h",
                  status);
  }
}

}  // namespace weft::iscsi
