#include "kernel/ib_cm_values.h"

#include <array>
#include <bit>
#include <utility>
#include <variant>

#include "kernel/sa_records.h"

namespace weft::kernel {
namespace {

struct EventName {
  cm::CmEventType ours;
  ib_cm_event_type theirs;
};
constexpr std::array kEvents{
    EventName{cm::CmEventType::ReqReceived,     IB_CM_REQ_RECEIVED     },
    EventName{cm::CmEventType::ReqTimeout,      IB_CM_REQ_TIMEOUT      },
    EventName{cm::CmEventType::RepReceived,     IB_CM_REP_RECEIVED     },
    EventName{cm::CmEventType::RepTimeout,      IB_CM_REP_TIMEOUT      },
    EventName{cm::CmEventType::RtuReceived,     IB_CM_RTU_RECEIVED     },
    EventName{cm::CmEventType::UserEstablished, IB_CM_USER_ESTABLISHED },
    EventName{cm::CmEventType::DreqReceived,    IB_CM_DREQ_RECEIVED    },
    EventName{cm::CmEventType::DreqTimeout,     IB_CM_DREQ_TIMEOUT     },
    EventName{cm::CmEventType::DrepReceived,    IB_CM_DREP_RECEIVED    },
    EventName{cm::CmEventType::TimewaitExit,    IB_CM_TIMEWAIT_EXIT    },
    EventName{cm::CmEventType::MraReceived,     IB_CM_MRA_RECEIVED     },
    EventName{cm::CmEventType::RejReceived,     IB_CM_REJ_RECEIVED     },
    EventName{cm::CmEventType::LapReceived,     IB_CM_LAP_RECEIVED     },
    EventName{cm::CmEventType::LapTimeout,      IB_CM_LAP_TIMEOUT      },
    EventName{cm::CmEventType::AprReceived,     IB_CM_APR_RECEIVED     },
    EventName{cm::CmEventType::SidrReqReceived, IB_CM_SIDR_REQ_RECEIVED},
    EventName{cm::CmEventType::SidrReqTimeout,  IB_CM_SIDR_REQ_TIMEOUT },
    EventName{cm::CmEventType::SidrRepReceived, IB_CM_SIDR_REP_RECEIVED},
};
constexpr bool is_in_order() {
  for (std::size_t i = 0; i < kEvents.size(); ++i) {
    if (std::to_underlying(kEvents[i].ours) != i) {
      return false;
    }
  }
  return true;
}
static_assert(is_in_order(), "found by its number");

template <class... Cases>
struct Visitor : Cases... {
  using Cases::operator()...;
};

}  // namespace

cm::Path cm_path_of(const sa_path_rec& from) {
  const wire::PathRecord record = path_of(from);
  cm::Path path;
  path.sgid = record.sgid;
  path.dgid = record.dgid;
  path.slid = record.slid;
  path.dlid = record.dlid;
  path.sl = record.sl;
  path.pkey = record.pkey;
  path.mtu = static_cast<verbs::Mtu>(record.mtu);
  path.rate = record.rate;
  path.packet_life_time = record.packet_life_time;
  path.traffic_class = record.tclass;
  path.hop_limit = record.hop_limit;
  path.flow_label = record.flow_label;
  return path;
}

sa_path_rec to_c(const cm::Path& from) {
  wire::PathRecord record;
  record.sgid = from.sgid;
  record.dgid = from.dgid;
  record.slid = from.slid;
  record.dlid = from.dlid;
  record.sl = from.sl;
  record.pkey = from.pkey;
  record.mtu_selector = wire::Selector::Exactly;
  record.mtu = std::to_underlying(from.mtu);
  record.rate_selector = wire::Selector::Exactly;
  record.rate = from.rate;
  record.packet_life_time_selector = wire::Selector::Exactly;
  record.packet_life_time = from.packet_life_time;
  record.tclass = from.traffic_class;
  record.hop_limit = from.hop_limit;
  record.flow_label = from.flow_label;
  record.reversible = true;
  record.path_count = 1;
  return to_c(record);
}

CmEventFace::CmEventFace(const cm::CmEvent& from, ib_cm_id& listener, ib_device* device,
                         PortNumber port)
    : kept_(from) {
  event.event = kEvents.at(std::to_underlying(from.type)).theirs;
  event.private_data = kept_.private_data.empty() ? nullptr : kept_.private_data.data();
  event.private_data_len = static_cast<std::uint8_t>(kept_.private_data.size());
  const auto size_of = [](const std::vector<std::byte>& octets) {
    return static_cast<std::uint8_t>(octets.size());
  };
  std::visit(Visitor{[](const std::monostate&) {},
                     [&](const cm::ReqReceived& req) { fill(req, listener, device, port); },
                     [&](const cm::RepReceived& rep) { fill(rep); },
                     [&](const cm::RejReceived& rej) {
                       event.param.rej_rcvd = {.reason = static_cast<ib_cm_rej_reason>(rej.reason),
                                               .ari = rej.additional_information.data(),
                                               .ari_length = size_of(rej.additional_information)};
                     },
                     [&](const cm::MraReceived& mra) {
                       event.param.mra_rcvd.service_timeout = mra.service_timeout;
                     },
                     [&](const cm::LapReceived& lap) {
                       alternate_ = to_c(lap.alternate);
                       event.param.lap_rcvd.alternate_path = &alternate_;
                     },
                     [&](const cm::AprReceived& apr) {
                       event.param.apr_rcvd.ap_status = static_cast<ib_cm_apr_status>(apr.status);
                       event.param.apr_rcvd.apr_info = apr.additional_information.data();
                       event.param.apr_rcvd.info_len = size_of(apr.additional_information);
                     },
                     [&](const cm::SidrReqReceived& req) {
                       event.param.sidr_req_rcvd = {.listen_id = &listener,
                                                    .device = device,
                                                    .port = port.value(),
                                                    .pkey = req.pkey.value(),
                                                    .service_id = req.service_id};
                     },
                     [&](const cm::SidrRepReceived& rep) {
                       event.param.sidr_rep_rcvd = {
                           .status = static_cast<ib_cm_sidr_status>(rep.status),
                           .qpn = rep.qpn.value(),
                           .qkey = rep.qkey.value(),
                           .info = rep.additional_information.data(),
                           .info_len = size_of(rep.additional_information)};
                     }},
             kept_.details);
}

void CmEventFace::fill(const cm::ReqReceived& from, ib_cm_id& listener, ib_device* device,
                       PortNumber port) {
  primary_ = to_c(from.primary);
  alternate_ = to_c(from.alternate.value_or(cm::Path{}));
  ib_cm_req_event_param& to = event.param.req_rcvd;
  to.listen_id = &listener;
  to.device = device;
  to.port = port.value();
  to.primary_path = &primary_;
  to.alternate_path = from.alternate ? &alternate_ : nullptr;
  to.service_id = from.service_id;
  to.remote_ca_guid = std::byteswap(from.remote_ca.value());
  to.remote_qpn = from.remote_qpn.value();
  to.starting_psn = from.starting_psn.value();
  to.qp_type = static_cast<ib_qp_type>(from.qp_type);
  to.responder_resources = from.responder_resources;
  to.initiator_depth = from.initiator_depth;
  to.retry_count = from.retry_count;
  to.rnr_retry_count = from.rnr_retry_count;
  to.flow_control = from.flow_control ? 1 : 0;
  to.srq = from.srq ? 1 : 0;
}

void CmEventFace::fill(const cm::RepReceived& from) {
  ib_cm_rep_event_param& to = event.param.rep_rcvd;
  to.remote_ca_guid = std::byteswap(from.remote_ca.value());
  to.remote_qpn = from.remote_qpn.value();
  to.starting_psn = from.starting_psn.value();
  to.responder_resources = from.responder_resources;
  to.initiator_depth = from.initiator_depth;
  to.target_ack_delay = from.target_ack_delay;
  to.failover_accepted = from.failover_accepted;
  to.rnr_retry_count = from.rnr_retry_count;
  to.flow_control = from.flow_control ? 1 : 0;
  to.srq = from.srq ? 1 : 0;
}

}  // namespace weft::kernel
