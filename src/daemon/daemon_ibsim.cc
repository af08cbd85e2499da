// Programs connected by ibsim's protocol.

#include "daemon/daemon_impl.h"
#include "os/clock.h"

namespace weft::daemon {

void Daemon::Impl::start_ibsim(IbsimParts parts) {
  // libumad2sim passes only 200 octets of a MAD to the program; counters beyond these would be
  // garbage.
  management().agents().pma().set_additional_counters(false);
  ibsim_ = std::make_unique<IbsimServer>(
      loop_, std::move(parts.place), std::move(parts.control), *fabric_,
      IbsimServer::Handlers{.on_sent =
                                [this](fabric::PortIndex port) {
                                  management().wake(port);
                                  run_management();
                                },
                            .on_sm = [this](fabric::PortIndex port) { update_is_sm(port); },
                            .on_offence =
                                [this](const ProgramName& program, std::string_view what) {
                                  if (const auto line = offences_.add(program, what)) {
                                    log_.write(*line);
                                  }
                                }});
}

/// A subnet manager registered or unregistered at the port.
void Daemon::Impl::update_is_sm(fabric::PortIndex port) {
  const bool is_sm = fabric_->is_managed_from(port) || is_sm_files_.is_held(port) ||
                     (ibsim_ && ibsim_->has_sm(port));
  management().agents().set_is_sm(port, is_sm, os::now());
  run_management();
}

}  // namespace weft::daemon
