#include "node/function_directory.h"

#include <algorithm>
#include <span>

#include "base/ip_address.h"
#include "cm/connection_manager.h"
#include "cm/rdma/header_addresses.h"
#include "wire/cm/rdma_cm_header.h"

namespace weft::node {

using fabric::PortIndex;
using sriov::FunctionId;

namespace {

/// The destination that RDMA-CM's header names; none where the version is not of IP.
[[nodiscard]] std::optional<IpAddress> destination_of(const wire::SidrReq& request) {
  const auto header = wire::unpack<wire::RdmaCmHeader>(
      std::span{request.private_data}.first<wire::kSizeOf<wire::RdmaCmHeader>>());
  return cm::has_ip_addresses(header)
             ? std::optional{cm::address_in(header, header.destination_address)}
             : std::nullopt;
}

}  // namespace

template <class Holds>
std::optional<FunctionId> FunctionDirectory::first(Holds holds) const {
  if (holds(physical_)) {
    return sriov::kPhysicalFunction;
  }
  for (const PortIndex port : ports_.functions_of(physical_)) {
    if (holds(port)) {
      return ports_.function_at(port)->number;
    }
  }
  return std::nullopt;
}

std::optional<FunctionId> FunctionDirectory::find_address(const wire::SidrReq& request) const {
  const auto destination = sriov::is_rdma_cm_service(request.service_id)
                               ? destination_of(request)
                               : std::optional<IpAddress>{};
  return destination ? first([&](PortIndex port) { return hosts_.has_address(port, *destination); })
                     : std::nullopt;
}

std::optional<FunctionId> FunctionDirectory::find_listener(const wire::SidrReq& request) const {
  return first([&](PortIndex port) { return listens(port, request); });
}

/// In the partition that the request names (IBTA vol 1 §12.11.1).
bool FunctionDirectory::listens(PortIndex port, const wire::SidrReq& request) const {
  const fabric::PortRecord& record = tables_.port(port);
  const HostServices* const services = hosts_.find(record.node);
  const auto is_in_partition = [&](PKey pkey) { return pkey.base() == request.pkey.base(); };
  return services != nullptr && std::ranges::any_of(tables_.pkeys(port), is_in_partition) &&
         services->connections().offers_datagram_service(
             request.service_id, tables_.hcas()[record.hca.value()].guid, request.private_data);
}

}  // namespace weft::node
