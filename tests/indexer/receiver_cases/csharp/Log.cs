namespace Acme
{
  class Log
  {
    public void Write()
    {
    }
  }

  interface IThing
  {
    void Do();
  }

  class User
  {
    public void Use(IThing thing)
    {
      thing.Do();
      new Store().Save();
    }
  }
}
