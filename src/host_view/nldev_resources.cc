#include "host_view/nldev_resources.h"

#include <algorithm>
#include <array>

#include "host_view/nldev.h"
#include "host_view/rdma_netlink.h"

namespace weft::host_view {
namespace {

using A = NldevAttribute;
using C = NldevCommand;

constexpr std::size_t kSockaddrBytes = 128;  // struct __kernel_sockaddr_storage

void put_qp(NldevWriter& out, const ProgramView& program, std::size_t at, const Asker& /*asker*/) {
  const QpView& qp = program.qps[at];
  if (qp.port != 0) {
    out.u32(A::PortIndex, qp.port);
  }
  out.u32(A::ResLqpn, qp.number.value());
  if (qp.remote) {
    out.u32(A::ResRqpn, qp.remote->value());
  }
  if (qp.receive_psn) {
    out.u32(A::ResRqPsn, *qp.receive_psn);
  }
  out.u32(A::ResSqPsn, qp.send_psn);
  if (qp.migration_state) {
    out.u8(A::ResPathMigState, *qp.migration_state);
  }
  out.u8(A::ResType, qp.type);
  out.u8(A::ResState, qp.state);
  out.u32(A::ResPdn, qp.pd);
  out.u32(A::ResPid, program.pid);
}

void put_address(NldevWriter& out, A type, const std::vector<std::byte>& address) {
  if (!address.empty()) {
    std::array<std::byte, kSockaddrBytes> storage{};
    std::ranges::copy_n(address.begin(),
                        static_cast<std::ptrdiff_t>(std::min(address.size(), storage.size())),
                        storage.begin());
    out.octets(type, storage);
  }
}

void put_cm_id(NldevWriter& out, const ProgramView& program, std::size_t at,
               const Asker& /*asker*/) {
  const CmIdView& id = program.cm_ids[at];
  if (id.port != 0) {
    out.u32(A::PortIndex, id.port);
  }
  if (id.qp.value() != 0) {
    out.u32(A::ResLqpn, id.qp.value());
    out.u8(A::ResType, id.qp_type);
  }
  out.u32(A::ResPs, id.port_space);
  out.u8(A::ResState, id.state);
  put_address(out, A::ResSrcAddr, id.source);
  put_address(out, A::ResDstAddr, id.destination);
  out.u32(A::ResCmIdn, id.number);
  out.u32(A::ResPid, program.pid);
}

void put_cq(NldevWriter& out, const ProgramView& program, std::size_t at, const Asker& /*asker*/) {
  const CqView& cq = program.cqs[at];
  out.u32(A::ResCqe, cq.entries);
  out.u64(A::ResUsecnt, cq.users);
  out.u8(A::DevDim, 0);
  out.u32(A::ResCqn, cq.number);
  out.u32(A::ResCtxn, program.context);
  out.u32(A::ResPid, program.pid);
}

void put_mr(NldevWriter& out, const ProgramView& program, std::size_t at, const Asker& asker) {
  const MrView& mr = program.mrs[at];
  if (asker.may_administer) {
    out.u32(A::ResRkey, mr.rkey);
    out.u32(A::ResLkey, mr.lkey);
  }
  out.u64(A::ResMrlen, mr.length);
  out.u32(A::ResMrn, mr.number);
  out.u32(A::ResPdn, mr.pd);
  out.u32(A::ResPid, program.pid);
}

void put_pd(NldevWriter& out, const ProgramView& program, std::size_t at, const Asker& /*asker*/) {
  const PdView& pd = program.pds[at];
  out.u64(A::ResUsecnt, pd.users);
  out.u32(A::ResPdn, pd.number);
  out.u32(A::ResCtxn, program.context);
  out.u32(A::ResPid, program.pid);
}

void put_srq(NldevWriter& out, const ProgramView& program, std::size_t at, const Asker& /*asker*/) {
  const SrqView& srq = program.srqs[at];
  out.u32(A::ResSrqn, srq.number);
  out.u8(A::ResType, srq.type);
  out.u32(A::ResPdn, srq.pd);
  if (srq.cq) {
    out.u32(A::ResCqn, *srq.cq);
  }
  out.u32(A::ResPid, program.pid);
}

void put_context(NldevWriter& out, const ProgramView& program, std::size_t /*at*/,
                 const Asker& /*asker*/) {
  out.u32(A::ResCtxn, program.context);
  out.u32(A::ResPid, program.pid);
}

std::uint32_t no_port(const ProgramView& /*program*/, std::size_t /*at*/) { return 0; }

template <auto kList>
std::size_t count_of(const ProgramView& program) {
  return (program.*kList).size();
}

template <auto kList>
std::uint32_t number_of(const ProgramView& program, std::size_t at) {
  return (program.*kList)[at].number;
}

// clang-format off
constexpr auto kKinds = std::to_array<ResourceKind>({
    {C::ResPdGet, A::ResPd, A::ResPdEntry, A::ResPdn, "pd",
     count_of<&ProgramView::pds>, number_of<&ProgramView::pds>, no_port, put_pd},
    {C::ResCqGet, A::ResCq, A::ResCqEntry, A::ResCqn, "cq",
     count_of<&ProgramView::cqs>, number_of<&ProgramView::cqs>, no_port, put_cq},
    {C::ResQpGet, A::ResQp, A::ResQpEntry, A::ResLqpn, "qp",
     count_of<&ProgramView::qps>,
     [](const ProgramView& program, std::size_t at) { return program.qps[at].number.value(); },
     [](const ProgramView& program, std::size_t at) { return program.qps[at].port; }, put_qp},
    {C::ResCmIdGet, A::ResCmId, A::ResCmIdEntry, A::ResCmIdn, "cm_id",
     count_of<&ProgramView::cm_ids>, number_of<&ProgramView::cm_ids>,
     [](const ProgramView& program, std::size_t at) { return program.cm_ids[at].port; }, put_cm_id},
    {C::ResMrGet, A::ResMr, A::ResMrEntry, A::ResMrn, "mr",
     count_of<&ProgramView::mrs>, number_of<&ProgramView::mrs>, no_port, put_mr},
    {C::ResCtxGet, A::ResCtx, A::ResCtxEntry, A::ResCtxn, "ctx",
     [](const ProgramView& program) { return std::size_t{program.context != 0 ? 1U : 0U}; },
     [](const ProgramView& program, std::size_t) { return program.context; }, no_port, put_context},
    {C::ResSrqGet, A::ResSrq, A::ResSrqEntry, A::ResSrqn, "srq",
     count_of<&ProgramView::srqs>, number_of<&ProgramView::srqs>, no_port, put_srq},
});
// clang-format on

}  // namespace

void NldevWriter::begin(const wire::netlink::Header& request, NldevCommand command,
                        std::uint16_t flags) {
  writer_.begin({.type = type_of(Client::Nldev, std::to_underlying(command)),
                 .flags = flags,
                 .sequence = request.sequence,
                 .port = request.port});
}

void NldevWriter::handle(const DeviceView& device) {
  u32(A::DevIndex, device.index);
  text(A::DevName, device.name);
}

bool ResourceKind::for_each(const DeviceView& device, const Visit& visit) const {
  for (const ProgramView& program : device.programs) {
    for (std::size_t at = 0; at < count(program); ++at) {
      if (visit(program, number(program, at), at)) {
        return true;
      }
    }
  }
  return false;
}

const ResourceKind* resource_kind(NldevCommand command) {
  const auto at = std::ranges::find(kKinds, command, &ResourceKind::command);
  return at == kKinds.end() ? nullptr : &*at;
}

void put_summary(NldevWriter& out, const DeviceView& device) {
  out.handle(device);
  const std::size_t table = out.begin_nested(A::ResSummary);
  for (const ResourceKind& kind : kKinds) {
    std::uint64_t sum = 0;
    for (const ProgramView& program : device.programs) {
      sum += kind.count(program);
    }
    const std::size_t entry = out.begin_nested(A::ResSummaryEntry);
    out.text(A::ResSummaryEntryName, kind.name);
    out.u64(A::ResSummaryEntryCurr, sum);
    out.end_nested(entry);
  }
  out.end_nested(table);
}

}  // namespace weft::host_view
