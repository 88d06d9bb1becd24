namespace Acme
{
  partial class Store
  {
    public void Clean()
    {
    }
  }
}
