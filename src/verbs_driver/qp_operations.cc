// QPs, and what is posted to them.

#include <endian.h>

#include <array>
#include <cerrno>
#include <memory>

#include "core/device.h"
#include "verbs_driver/translation.h"
#include "verbs_driver/verbs_device.h"
#include "verbs_driver/verbs_operations.h"

namespace weft::verbs_driver {
namespace {

using core::Qp;

/// Stands for the QP's own Q_Key in a request (IBTA vol 1 §10.2.5).
constexpr std::uint32_t kOwnQKey = 0x8000'0000;

Result<void> create_qp(Qp& qp, const core::QpInit& init) {
  VerbsDevice& own = verbs_device_of(qp.device());
  if (qp.pd() == nullptr || init.indirection_table != nullptr ||
      (init.type != verbs::QpType::Rc && init.type != verbs::QpType::Uc &&
       init.type != verbs::QpType::Ud)) {
    return fail(ErrorCode::NotSupported, "a program has RC, UC and UD QPs, not {}",
                verbs::name_of(init.type));
  }
  ibv_qp_init_attr asked{};
  asked.qp_context = &qp;
  asked.send_cq = verbs_cq(*init.send_cq).cq;
  asked.recv_cq = verbs_cq(*init.recv_cq).cq;
  asked.srq = init.srq != nullptr ? verbs_srq(*init.srq) : nullptr;
  asked.cap = to_ibv(init.capabilities);
  asked.qp_type = static_cast<ibv_qp_type>(init.type);
  asked.sq_sig_all = init.signal_all ? 1 : 0;
  ibv_qp* const made = own.library().create_qp(verbs_pd(*qp.pd()).pd, &asked);
  if (made == nullptr) {
    return std::unexpected(library_error(errno, "ibv_create_qp"));
  }
  qp.driver_data = std::make_unique<VerbsQp>(own.library(), *made).release();
  qp.set_number(Qpn{made->qp_num});
  qp.set_capabilities(capabilities_of(asked.cap));
  own.add_qp(qp);
  return {};
}

Result<void> modify_qp(Qp& qp, const core::QpModify& modify) {
  return verbs_qp(qp).modify(to_ibv(modify.attributes), static_cast<int>(modify.mask.bits()));
}

Result<verbs::QpAttributes> query_qp(Qp& qp, verbs::QpAttributeMask mask) {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  if (const auto asked = check_call(
          verbs_device_of(qp.device())
              .library()
              .query_qp(&verbs_qp(qp).qp(), &attributes, static_cast<int>(mask.bits()), &init),
          "ibv_query_qp");
      !asked) {
    return std::unexpected(asked.error());
  }
  return attributes_of(attributes);
}

Result<void> destroy_qp(Qp& qp) {
  VerbsDevice& own = verbs_device_of(qp.device());
  own.remove_qp(qp);
  // Waits until the thread of events has acknowledged what it took of this QP.
  auto gone = check_call(own.library().destroy_qp(&verbs_qp(qp).qp()), "ibv_destroy_qp");
  if (!gone) {
    own.add_qp(qp);
    return gone;
  }
  const std::unique_ptr<VerbsQp> ended{&verbs_qp(qp)};
  return {};
}

/// What depends on the opcode and on the type of the QP.
Result<void> set_operation(const Qp& qp, const core::SendWr& wr, ibv_send_wr& to) {
  using enum verbs::WrOpcode;
  switch (wr.opcode) {
    case Send:
      break;
    case SendWithImmediate:
      to.imm_data = htobe32(wr.immediate);
      break;
    case SendWithInvalidate:
      to.invalidate_rkey = wr.invalidate_rkey.value();
      break;
    case RdmaWriteWithImmediate:
      to.imm_data = htobe32(wr.immediate);
      [[fallthrough]];
    case RdmaWrite:
    case RdmaRead:
      to.wr.rdma = {.remote_addr = wr.remote_address, .rkey = wr.rkey.value()};
      break;
    case CompareSwap:
    case FetchAdd:
      to.wr.atomic = {.remote_addr = wr.remote_address,
                      .compare_add = wr.compare_add,
                      .swap = wr.swap,
                      .rkey = wr.rkey.value()};
      break;
    case LocalInvalidate:
      to.invalidate_rkey = wr.invalidate_rkey.value();
      break;
    case RegisterMemory:
      return bind_window(wr, to);
    case BindMemoryWindow:
    case Flush:
    case AtomicWrite:
    case RegisterMemoryIntegrity:
      return fail(ErrorCode::NotSupported,
                  "a program's verbs have no such request; the device's capabilities say so");
  }
  to.opcode = static_cast<ibv_wr_opcode>(wr.opcode);
  if (qp.type() == verbs::QpType::Ud) {
    to.wr.ud = {
        .ah = wr.ah != nullptr ? static_cast<ibv_ah*>(wr.ah->driver_data) : nullptr,
        .remote_qpn = wr.remote_qpn.value(),
        .remote_qkey = wr.remote_qkey == QKey{} ? kOwnQKey : wr.remote_qkey.value(),
    };
  }
  return {};
}

/// Requests that are posted by one call, so that the device is told of them once.
class SendChain {
 public:
  explicit SendChain(Qp& qp) : qp_(qp) {}

  [[nodiscard]] bool has_room_for(const core::SendWr& wr) const {
    return count_ < kMost && sges_.has_room_for(wr.sges);
  }
  [[nodiscard]] bool is_empty() const { return count_ == 0; }
  Result<void> add(const core::SendWr& wr) {
    // What is copied at once needs no key.
    const bool is_inline = wr.flags.has(verbs::Send::Inline);
    const auto sges = sges_.add(is_inline ? nullptr : &verbs_pd(*qp_.pd()), wr.sges);
    if (!sges) {
      return std::unexpected(sges.error());
    }
    ibv_send_wr& to = requests_[count_];
    to = {};
    to.wr_id = wr.wr_id;
    to.sg_list = sges->data();
    to.num_sge = static_cast<int>(sges->size());
    to.send_flags = wr.flags.bits();
    if (auto set = set_operation(qp_, wr, to); !set) {
      return set;
    }
    if (count_ != 0) {
      requests_[count_ - 1].next = &to;
    }
    sources_[count_++] = &wr;
    return {};
  }
  /// All that were added, and none is left. `*bad`: the first that was refused.
  Result<void> post(const core::SendWr** bad) {
    ibv_send_wr* refused = nullptr;
    auto posted =
        check_call(ibv_post_send(&verbs_qp(qp_).qp(), requests_.data(), &refused), "ibv_post_send");
    if (!posted) {
      const auto at = refused == nullptr ? 0 : refused - requests_.data();
      *bad = sources_[static_cast<std::size_t>(at)];
    }
    count_ = sges_.count = 0;
    return posted;
  }

 private:
  static constexpr std::size_t kMost = 16;  // policy

  Qp& qp_;
  DeviceSges sges_;
  std::array<ibv_send_wr, kMost> requests_;  // of which `count_` are set, as what follows
  std::array<const core::SendWr*, kMost> sources_;
  std::size_t count_{};
};

Result<void> post_send(Qp& qp, const core::SendWr& first, const core::SendWr** bad) {
  SendChain chain{qp};
  for (const core::SendWr* wr = &first; wr != nullptr; wr = wr->next) {
    if (!chain.is_empty() && !chain.has_room_for(*wr)) {
      if (auto posted = chain.post(bad); !posted) {
        return posted;
      }
    }
    if (auto added = chain.add(*wr); !added) {
      if (!chain.is_empty()) {
        if (auto posted = chain.post(bad); !posted) {
          return posted;
        }
      }
      *bad = wr;
      return added;
    }
  }
  return chain.post(bad);
}

Result<void> post_recv(Qp& qp, const core::RecvWr& first, const core::RecvWr** bad) {
  return post_receives(
      &verbs_pd(*qp.pd()), first, bad,
      [&](ibv_recv_wr& wr, ibv_recv_wr** refused) { return verbs_qp(qp).post_recv(wr, refused); });
}

Result<void> attach_multicast(Qp& qp, const Gid& gid, Lid lid) {
  const ibv_gid group = to_ibv(gid);
  return check_call(
      verbs_device_of(qp.device())
          .library()
          .attach_mcast(&verbs_qp(qp).qp(), &group, static_cast<std::uint16_t>(lid.value())),
      "ibv_attach_mcast");
}

Result<void> detach_multicast(Qp& qp, const Gid& gid, Lid lid) {
  const ibv_gid group = to_ibv(gid);
  return check_call(
      verbs_device_of(qp.device())
          .library()
          .detach_mcast(&verbs_qp(qp).qp(), &group, static_cast<std::uint16_t>(lid.value())),
      "ibv_detach_mcast");
}

}  // namespace

void add_qp_operations(core::DeviceOperations& operations) {
  operations.create_qp = create_qp;
  operations.modify_qp = modify_qp;
  operations.query_qp = query_qp;
  operations.destroy_qp = destroy_qp;
  operations.post_send = post_send;
  operations.post_recv = post_recv;
  operations.attach_multicast = attach_multicast;
  operations.detach_multicast = detach_multicast;
}

}  // namespace weft::verbs_driver
