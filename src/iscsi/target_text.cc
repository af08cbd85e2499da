// Text requests of the full feature phase, and discovery (RFC 7143 §4.3, §6.4, §11.10, appendix C).

#include <algorithm>
#include <utility>

#include "iscsi/target_connection.h"
#include "iscsi/target_server.h"

namespace weft::iscsi {

using wire::iscsi::kNoTag;
using wire::iscsi::RejectReason;
using wire::iscsi::TextRequest;
using wire::iscsi::TextResponse;

bool TargetConnection::add_targets(std::string_view value, TextWriter& answers) const {
  const SessionIdentity& identity = session_->identity();
  // RFC 7143 appendix C: All in a discovery session only; empty means the session's own target.
  if (value == "All" && !identity.is_discovery) {
    return false;
  }
  const std::string_view wanted = value.empty() ? std::string_view{identity.target} : value;
  const ServerOptions& options = server_.options_;
  const auto& addresses =
      preferences_.values.rdma_extensions ? options.rdma_addresses : options.addresses;
  for (const NodeOptions& node : server_.nodes_) {
    const bool is_asked_for = value == "All" || node.name == wanted;
    const bool may_log_in =
        node.initiators.empty() ||
        std::ranges::find(node.initiators, identity.initiator) != node.initiators.end();
    if (!is_asked_for || !may_log_in) {
      continue;
    }
    answers.add("TargetName", node.name);
    for (const std::string& address : addresses) {
      answers.add("TargetAddress", fmt::format("{},{}", address, options.portal_group_tag));
    }
  }
  return true;
}

void TargetConnection::handle_text(const HeldRequest& held, Instant /*now*/) {
  const auto request = wire::unpack<TextRequest>(held.header);
  const ReceivedPdu pdu{.header = held.header};
  if (!text_.response.empty() && request.target_transfer_tag == text_.transfer_tag) {
    send_text_part(request.initiator_task_tag);  // asks for more of a long answer
    return;
  }
  if (request.target_transfer_tag == kNoTag) {
    text_ = {};  // a new exchange; one that was under way is given up (RFC 7143 §11.10.4)
  } else if (request.target_transfer_tag != text_.transfer_tag) {
    reject(pdu, RejectReason::ProtocolError);
    return;
  }
  text_.request += to_characters(held.data);
  if (text_.request.size() > kMaxTextBytes || (request.final && request.continues)) {
    text_ = {};
    reject(pdu, RejectReason::ProtocolError);
    return;
  }
  if (request.continues) {
    text_.transfer_tag = session_->next_transfer_tag();
    TextResponse more{.initiator_task_tag = request.initiator_task_tag,
                      .target_transfer_tag = text_.transfer_tag};
    send_status(more, {}, nullptr);
    return;
  }
  const std::string whole = std::exchange(text_.request, {});
  const auto pairs = parse_text(whole);
  TextWriter answers;
  Negotiation negotiation{preferences_, parameters_};
  const NegotiationScene scene{
      .role = Role::Target, .discovery = session_->identity().is_discovery, .full_feature = true};
  bool is_legal = pairs.has_value();
  for (const TextPair& pair : pairs.value_or(TextPairs{})) {
    if (pair.key == "SendTargets") {
      if (!add_targets(pair.value, answers)) {
        answers.add(pair.key, "Reject");
      }
    } else {
      is_legal = is_legal && negotiation.take(pair, scene, answers).has_value();
    }
  }
  if (!is_legal) {
    reject(pdu, RejectReason::ProtocolError);
    return;
  }
  parameters_ = negotiation.agreed();
  text_.response = answers.take();
  send_text_part(request.initiator_task_tag);
}

void TargetConnection::send_text_part(std::uint32_t tag) {
  const std::size_t bytes =
      std::min<std::size_t>(text_.response.size(), parameters_.max_recv_data_segment_length);
  TextResponse response{.initiator_task_tag = tag};
  const std::string part = text_.response.substr(0, bytes);
  text_.response.erase(0, bytes);
  response.final = text_.response.empty();
  response.continues = !response.final;
  text_.transfer_tag = response.final ? kNoTag : session_->next_transfer_tag();
  response.target_transfer_tag = text_.transfer_tag;
  send_status(response, to_octets(part), nullptr);
}

}  // namespace weft::iscsi
