#include "cm/messages.h"

#include <algorithm>

namespace weft::cm {
namespace {

constexpr unsigned kByteBits = 8;

[[nodiscard]] wire::Req transport_fields(QpType qp_type) {
  switch (qp_type) {
    case QpType::Uc:
      return {.transport = wire::CmTransport::Uc};
    case QpType::XrcInitiator:
    case QpType::XrcTarget:
      return {.transport = wire::CmTransport::Extended,
              .extended_transport = wire::CmExtendedTransport::Xrc};
    case QpType::Rc:
    case QpType::Ud:
    case QpType::Smi:
    case QpType::Gsi:
    case QpType::RawPacket:
      break;  // connects nothing but Rc; the caller's check has refused the others
  }
  return {.transport = wire::CmTransport::Rc};
}

}  // namespace

QpType passive_type(const wire::Req& req) {
  switch (req.transport) {
    case wire::CmTransport::Uc:
      return QpType::Uc;
    case wire::CmTransport::Extended:
      return QpType::XrcTarget;
    case wire::CmTransport::Rc:
    case wire::CmTransport::Rd:
      break;
  }
  return QpType::Rc;
}

std::uint8_t ack_timeout(std::uint8_t packet_life_time, std::uint8_t ack_delay) {
  constexpr unsigned kMost = 31;
  const unsigned both_ways = packet_life_time + 1U;
  const unsigned larger = std::max<unsigned>(both_ways, ack_delay);
  const unsigned smaller = std::min<unsigned>(both_ways, ack_delay);
  // Sum of two powers of two, rounded up to a power of two: the larger one doubled, or the larger
  // one itself if the smaller is less than half of it.
  return static_cast<std::uint8_t>(std::min(kMost, larger + (smaller + 1 >= larger ? 1U : 0U)));
}

Path path_of(const wire::CmPath& path, PKey pkey, verbs::Mtu mtu) {
  return {.sgid = path.remote_gid,
          .dgid = path.local_gid,
          .slid = path.remote_lid,
          .dlid = path.local_lid,
          .sl = path.sl,
          .pkey = pkey,
          .mtu = mtu,
          .rate = path.packet_rate,
          .packet_life_time = static_cast<std::uint8_t>(
              path.local_ack_timeout == 0 ? 0 : path.local_ack_timeout - 1),
          .traffic_class = path.traffic_class,
          .hop_limit = path.hop_limit,
          .flow_label = path.flow_label};
}

wire::CmPath wire_path(const Path& path, std::uint8_t timeout) {
  return {.local_lid = path.slid,
          .remote_lid = path.dlid,
          .local_gid = path.sgid,
          .remote_gid = path.dgid,
          .flow_label = path.flow_label,
          .packet_rate = path.rate,
          .traffic_class = path.traffic_class,
          .hop_limit = path.hop_limit,
          .sl = path.sl,
          .is_subnet_local = !path.is_global(),
          .local_ack_timeout = timeout};
}

bool is_absent(const wire::CmPath& path) {
  return path.remote_lid == Lid{} && path.remote_gid.is_zero();
}

mad::MadBytes make_req(const Link& link, const RequestParameters& parameters) {
  wire::Req req = transport_fields(parameters.qp_type);
  req.local_communication_id = link.local_id;
  req.vendor_id = parameters.ece.vendor_id;
  req.service_id = parameters.service_id;
  req.local_ca_guid = link.local_ca;
  req.local_qpn = parameters.qpn;
  req.initiator_depth = parameters.initiator_depth;
  req.remote_cm_response_timeout = parameters.remote_cm_response_timeout;
  req.end_to_end_flow_control = parameters.flow_control;
  req.starting_psn = parameters.starting_psn;
  req.local_cm_response_timeout = parameters.local_cm_response_timeout;
  req.pkey = parameters.primary.pkey;
  req.path_mtu = static_cast<std::uint8_t>(parameters.primary.mtu);
  req.max_cm_retries = parameters.max_cm_retries;
  if (parameters.qp_type != QpType::XrcInitiator) {  // an initiator receives no requests
    req.responder_resources = parameters.responder_resources;
    req.retry_count = parameters.retry_count;
    req.rnr_retry_count = parameters.rnr_retry_count;
    req.srq = parameters.srq;
  }
  static_cast<wire::CmPath&>(req.primary) = wire_path(parameters.primary, link.ack_timeout);
  if (parameters.alternate) {
    static_cast<wire::CmPath&>(req.alternate) =
        wire_path(*parameters.alternate, link.alternate_ack_timeout);
  }
  put(req.private_data, parameters.private_data);
  const bool has_options = parameters.ece.vendor_id != 0;
  return make_mad(wire::CmAttribute::Req, link.transaction_id, req,
                  has_options ? parameters.ece.options : 0);
}

ReqReceived req_received_from(const wire::Req& req, std::uint32_t ece_options) {
  // A REQ with another code was rejected before (RejectReason::InvalidPathMtu).
  const verbs::Mtu mtu = verbs::mtu_of(req.path_mtu).value_or(verbs::Mtu::Mtu256);
  ReqReceived reported{
      .primary = path_of(req.primary, req.pkey, mtu),
      .service_id = req.service_id,
      .remote_ca = req.local_ca_guid,
      .remote_qkey = req.local_qkey,
      .remote_qpn = req.local_qpn,
      .qp_type = passive_type(req),
      .starting_psn = req.starting_psn,
      .responder_resources = req.initiator_depth,
      .initiator_depth = req.responder_resources,
      .local_cm_response_timeout = req.remote_cm_response_timeout,
      .remote_cm_response_timeout = req.local_cm_response_timeout,
      .retry_count = req.retry_count,
      .rnr_retry_count = req.rnr_retry_count,
      .flow_control = req.end_to_end_flow_control,
      .srq = req.srq,
      .ece = {.vendor_id = req.vendor_id, .options = req.vendor_id != 0 ? ece_options : 0}
  };
  if (!is_absent(req.alternate)) {
    reported.alternate = path_of(req.alternate, req.pkey, mtu);
  }
  return reported;
}

mad::MadBytes make_rep(const Link& link, const ReplyParameters& parameters) {
  const std::uint32_t vendor = parameters.ece.vendor_id;
  wire::Rep rep{.local_communication_id = link.local_id,
                .remote_communication_id = link.remote_id,
                .vendor_id_high = static_cast<std::uint8_t>(vendor >> 2 * kByteBits),
                .vendor_id_middle = static_cast<std::uint8_t>(vendor >> kByteBits),
                .starting_psn = parameters.starting_psn,
                .vendor_id_low = static_cast<std::uint8_t>(vendor),
                .responder_resources = parameters.responder_resources,
                .target_ack_delay = parameters.target_ack_delay,
                .failover_accepted = parameters.failover_accepted,
                .rnr_retry_count = parameters.rnr_retry_count,
                .srq = parameters.srq,
                .local_ca_guid = link.local_ca};
  if (link.qp_type == QpType::XrcTarget) {  // a target sends no requests (annex A14)
    rep.local_eecn = parameters.qpn;
    rep.srq = true;
  } else {
    rep.local_qpn = parameters.qpn;
    rep.initiator_depth = parameters.initiator_depth;
    rep.end_to_end_flow_control = parameters.flow_control;
  }
  put(rep.private_data, parameters.private_data);
  return make_mad(wire::CmAttribute::Rep, link.transaction_id, rep,
                  vendor != 0 ? parameters.ece.options : 0);
}

RepReceived rep_received_from(const wire::Rep& rep, QpType qp_type, std::uint32_t ece_options) {
  const std::uint32_t vendor = std::uint32_t{rep.vendor_id_high} << 2 * kByteBits |
                               std::uint32_t{rep.vendor_id_middle} << kByteBits | rep.vendor_id_low;
  return {
      .remote_ca = rep.local_ca_guid,
      .remote_qkey = rep.local_qkey,
      .remote_qpn = qp_type == QpType::XrcInitiator ? rep.local_eecn : rep.local_qpn,
      .starting_psn = rep.starting_psn,
      .responder_resources = rep.initiator_depth,
      .initiator_depth = rep.responder_resources,
      .target_ack_delay = rep.target_ack_delay,
      .failover_accepted = rep.failover_accepted,
      .rnr_retry_count = rep.rnr_retry_count,
      .flow_control = rep.end_to_end_flow_control,
      .srq = rep.srq,
      .ece = {.vendor_id = vendor, .options = vendor != 0 ? ece_options : 0}
  };
}

mad::MadBytes make_sidr_rep(const Link& link, const SidrReplyParameters& parameters) {
  const std::uint32_t vendor = parameters.ece.vendor_id;
  wire::SidrRep rep{
      .request_id = link.sidr->request_id,
      .status = parameters.status,
      .additional_information_length =
          static_cast<std::uint8_t>(parameters.additional_information.size()),
      .vendor_id_high = static_cast<std::uint16_t>(vendor >> kByteBits),
      .qpn = parameters.qpn,
      .vendor_id_low = static_cast<std::uint8_t>(vendor),
      .service_id = link.service_id,
      .qkey = parameters.qkey,
  };
  put(rep.additional_information, parameters.additional_information);
  put(rep.private_data, parameters.private_data);
  return make_mad(wire::CmAttribute::SidrRep, link.transaction_id, rep,
                  vendor != 0 ? parameters.ece.options : 0);
}

SidrRepReceived sidr_rep_received_from(const wire::SidrRep& rep, std::uint32_t ece_options) {
  const std::uint32_t vendor = std::uint32_t{rep.vendor_id_high} << kByteBits | rep.vendor_id_low;
  const std::size_t length =
      std::min<std::size_t>(rep.additional_information_length, kAdditionalInformation);
  return {
      .status = rep.status,
      .qpn = rep.qpn,
      .qkey = rep.qkey,
      .ece = {.vendor_id = vendor,                .options = vendor != 0 ? ece_options : 0},
      .additional_information = {
              rep.additional_information.begin(),
              rep.additional_information.begin() + static_cast<std::ptrdiff_t>(length)    }
  };
}

}  // namespace weft::cm
