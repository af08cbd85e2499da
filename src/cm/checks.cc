// Validation of callers' parameters (R-CM-7): a number that does not fit its field is refused
// rather than truncated.

#include <array>
#include <string_view>
#include <utility>

#include "cm/messages.h"
#include "verbs/mtu.h"

namespace weft::cm {
namespace {

struct Width {
  std::string_view what;
  std::uint64_t value{};
  unsigned bits{};
};

template <std::size_t kCount>
[[nodiscard]] Result<void> check_widths(const std::array<Width, kCount>& widths) {
  for (const Width& width : widths) {
    if (auto checked = check_width(width.what, width.value, width.bits); !checked) {
      return checked;
    }
  }
  return {};
}

constexpr unsigned kQpnBits = 24;
constexpr unsigned kVendorBits = 24;
constexpr unsigned kExponentBits = 5;
constexpr unsigned kRetryBits = 3;

}  // namespace

Result<void> check_width(std::string_view what, std::uint64_t value, unsigned bits) {
  const std::uint64_t most = (std::uint64_t{1} << bits) - 1;
  if (value > most) {
    return fail(ErrorCode::InvalidArgument, "{} is {}, but messages have room for {} at most", what,
                value, most);
  }
  return {};
}

Result<void> check_length(std::string_view what, ByteSpan data, std::size_t room) {
  if (data.size() > room) {
    return fail(ErrorCode::InvalidArgument, "{} bytes of {}; the message has room for {}",
                data.size(), what, room);
  }
  return {};
}

Result<void> check(const Path& path, std::string_view what) {
  if (!path.dlid.is_unicast()) {
    return fail(ErrorCode::InvalidArgument,
                "the {} path uses LID {}, which is not assigned to a port", what,
                path.dlid.value());
  }
  if (path.mtu < verbs::Mtu::Mtu256 || path.mtu > verbs::Mtu::Mtu4096) {
    return fail(ErrorCode::InvalidArgument, "the {} path's MTU has code {}, but 1 to 5 are defined",
                what, std::to_underlying(path.mtu));
  }
  return check_widths(std::array<Width, 4>{
      {{"the path's SL", path.sl.value(), 4},
       {"the path's rate", path.rate, 6},
       {"the path's packet life time", path.packet_life_time, kExponentBits},
       {"the path's flow label", path.flow_label, 20}}
  });
}

Result<void> check(const RequestParameters& parameters) {
  const QpType type = parameters.qp_type;
  if (type != QpType::Rc && type != QpType::Uc && type != QpType::XrcInitiator) {
    return fail(ErrorCode::InvalidArgument,
                "a QP of type {} cannot be connected: RC, UC and XRC initiators can",
                std::to_underlying(type));
  }
  if (auto checked = check(parameters.primary, "primary"); !checked) {
    return checked;
  }
  if (parameters.alternate) {
    if (auto checked = check(*parameters.alternate, "alternate"); !checked) {
      return checked;
    }
    if (parameters.alternate->pkey != parameters.primary.pkey ||
        parameters.alternate->mtu != parameters.primary.mtu) {
      return fail(ErrorCode::InvalidArgument,
                  "the alternate path must have the primary path's P_Key and MTU");
    }
  }
  if (auto checked =
          check_length("private data of a REQ", parameters.private_data, kReqPrivateData);
      !checked) {
    return checked;
  }
  return check_widths(std::array<Width, 7>{
      {{"the QPN", parameters.qpn.value(), kQpnBits},
       {"the remote CM response timeout", parameters.remote_cm_response_timeout, kExponentBits},
       {"the local CM response timeout", parameters.local_cm_response_timeout, kExponentBits},
       {"the retry count", parameters.retry_count, kRetryBits},
       {"the RNR retry count", parameters.rnr_retry_count, kRetryBits},
       {"the count of CM retries", parameters.max_cm_retries, 4},
       {"the vendor ID", parameters.ece.vendor_id, kVendorBits}}
  });
}

Result<void> check(const ReplyParameters& parameters) {
  if (auto checked =
          check_length("private data of a REP", parameters.private_data, kRepPrivateData);
      !checked) {
    return checked;
  }
  return check_widths(std::array<Width, 5>{
      {{"the QPN", parameters.qpn.value(), kQpnBits},
       {"the target ACK delay", parameters.target_ack_delay, kExponentBits},
       {"the code for failover", parameters.failover_accepted, 2},
       {"the RNR retry count", parameters.rnr_retry_count, kRetryBits},
       {"the vendor ID", parameters.ece.vendor_id, kVendorBits}}
  });
}

Result<void> check(const RejectParameters& parameters) {
  if (auto checked = check_length("additional information", parameters.additional_information,
                                  kAdditionalInformation);
      !checked) {
    return checked;
  }
  return check_length("private data of a REJ", parameters.private_data, kRejPrivateData);
}

Result<void> check(const AprParameters& parameters) {
  if (auto checked = check_length("additional information", parameters.additional_information,
                                  kAdditionalInformation);
      !checked) {
    return checked;
  }
  return check_length("private data of an APR", parameters.private_data, kAprPrivateData);
}

Result<void> check(const SidrRequestParameters& parameters) {
  if (auto checked = check(parameters.path, "given"); !checked) {
    return checked;
  }
  if (parameters.timeout <= Duration{}) {
    return fail(ErrorCode::InvalidArgument, "the timeout must be greater than zero");
  }
  if (auto checked =
          check_length("private data of a SIDR_REQ", parameters.private_data, kSidrReqPrivateData);
      !checked) {
    return checked;
  }
  return check_width("the count of CM retries", parameters.max_cm_retries, 4);
}

Result<void> check(const SidrReplyParameters& parameters) {
  if (auto checked = check_length("additional information", parameters.additional_information,
                                  kAdditionalInformation);
      !checked) {
    return checked;
  }
  if (auto checked =
          check_length("private data of a SIDR_REP", parameters.private_data, kSidrRepPrivateData);
      !checked) {
    return checked;
  }
  return check_widths(std::array<Width, 2>{
      {{"the QPN", parameters.qpn.value(), kQpnBits},
       {"the vendor ID", parameters.ece.vendor_id, kVendorBits}}
  });
}

}  // namespace weft::cm
