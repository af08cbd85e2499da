// Address handles and multicast.

#include <endian.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "compat/ibverbs/objects.h"

using namespace weft;
using namespace weft::compat;

extern "C" {

WEFT_EXPORT ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
  Context& context = context_of(pd->context);
  if (!is_alive(context)) {
    refuse(EIO, "a child of fork() has none of its parent's objects");
    return nullptr;
  }
  auto ah = context.engine->create_ah(*object_of<ProtectionDomainObject>(pd).engine,
                                      to_engine(*attributes));
  if (!ah) {
    refuse(ah.error());
    return nullptr;
  }
  auto object = std::make_unique<AddressHandleObject>();
  object->ah.context = pd->context;
  object->ah.pd = pd;
  object->engine = *ah;
  hold(pd);
  return &object.release()->ah;
}

WEFT_EXPORT int ibv_destroy_ah(ibv_ah* ah) {
  auto& object = object_of<AddressHandleObject>(ah);
  Context& context = context_of(ah->context);
  if (is_alive(context)) {
    if (auto destroyed = context.engine->destroy_ah(*object.engine); !destroyed) {
      return refuse(destroyed.error());
    }
  }
  release_hold(ah->pd);
  delete &object;
  return 0;
}

WEFT_EXPORT int ibv_init_ah_from_wc(ibv_context* c, std::uint8_t port, ibv_wc* wc, ibv_grh* grh,
                                    ibv_ah_attr* attributes) {
  *attributes = {};
  attributes->dlid = wc->slid;
  attributes->sl = wc->sl;
  attributes->src_path_bits = wc->dlid_path_bits;
  attributes->port_num = port;
  if ((wc->wc_flags & IBV_WC_GRH) == 0) {
    return 0;
  }
  // The response goes back to the source of the packet.
  attributes->is_global = 1;
  attributes->grh.dgid = grh->sgid;
  const auto gids = context_of(c).engine->port(PortNumber{port}).gids;
  const Gid ours = to_engine(grh->dgid);
  bool found = false;
  for (std::size_t i = 0; i < gids.size() && !found; ++i) {
    if (gids[i] == ours) {
      attributes->grh.sgid_index = static_cast<std::uint8_t>(i);
      found = true;
    }
  }
  if (!found && !ours.is_multicast()) {
    refuse(EINVAL, "the GRH was not addressed to a GID of this port");
    return -1;
  }
  const std::uint32_t word = be32toh(grh->version_tclass_flow);
  attributes->grh.flow_label = word & 0xF'FFFF;
  attributes->grh.traffic_class = static_cast<std::uint8_t>(word >> 20);
  attributes->grh.hop_limit = 0xFF;
  return 0;
}

WEFT_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port) {
  ibv_ah_attr attributes;
  if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attributes) != 0) {
    return nullptr;
  }
  return ibv_create_ah(pd, &attributes);
}

WEFT_EXPORT int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  auto& object = object_of<QpObject>(qp);
  if (!is_alive(*object.context)) {
    return refuse(EIO, "a child of fork() has none of its parent's objects");
  }
  auto attached = object.context->process->attach_multicast(object.context->hca, *object.engine,
                                                            to_engine(*gid), Lid{lid});
  return attached ? 0 : refuse(attached.error());
}

WEFT_EXPORT int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  auto& object = object_of<QpObject>(qp);
  if (!is_alive(*object.context)) {
    return refuse(EIO, "a child of fork() has none of its parent's objects");
  }
  auto detached = object.context->process->detach_multicast(object.context->hca, *object.engine,
                                                            to_engine(*gid), Lid{lid});
  return detached ? 0 : refuse(detached.error());
}

}  // extern "C"
